// Calls of the REST API, as whoever signed in.

import { authorization } from "./session.js";

const ROOT = "../api/v1";

export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.message ?? `the answer was ${status}`);
    this.status = status;
    this.code = problem.code ?? "";
    this.details = problem.details ?? [];
  }
}

export async function errorOf(response) {
  let problem = {};
  try {
    problem = (await response.json()).error ?? {};
  } catch {
    // Something between here and the api answered in its own way.
  }
  return new ApiError(response.status, problem);
}

/** The document of the answer; null where there is none. */
export async function call(method, path, body) {
  const headers = { ...authorization() };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(ROOT + path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "omit",
      cache: "no-store",
    });
  } catch {
    throw new ApiError(0, { message: "the api cannot be reached: try again" });
  }
  if (!response.ok) {
    if (response.status === 401) document.dispatchEvent(new Event("signedout"));
    throw await errorOf(response);
  }
  return response.status === 204 ? null : response.json();
}

/** Names one request, so that sending it again does nothing twice. */
export function operationId(stem) {
  const bytes = crypto.getRandomValues(new Uint8Array(10));
  const text = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return `console-${stem}-${text}`;
}

export function pathOf(...parts) {
  return parts.map((part) => `/${encodeURIComponent(part)}`).join("");
}
