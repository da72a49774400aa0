// The token, for as long as this tab lives, and never anywhere else.

const NAME = "gpuruntime-token";

export function token() {
  return sessionStorage.getItem(NAME) ?? "";
}

export function keepToken(given) {
  if (given) sessionStorage.setItem(NAME, given);
  else sessionStorage.removeItem(NAME);
}

export function authorization() {
  return token() ? { Authorization: `Bearer ${token()}` } : {};
}
