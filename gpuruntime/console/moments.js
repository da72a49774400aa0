// Moments and lengths of time, in few characters.

export function lengthOf(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

function sinceNow(moment) {
  return lengthOf(Math.max(0, Math.round((Date.now() - Date.parse(moment)) / 1000)));
}

/** How long ago; it goes on counting while it is shown. */
export function age(moment) {
  if (!moment) return "–";
  const made = document.createElement("time");
  made.dateTime = moment;
  made.title = new Date(moment).toLocaleString();
  made.dataset.age = "";
  made.textContent = sinceNow(moment);
  return made;
}

export function keepAges() {
  setInterval(() => {
    for (const each of document.querySelectorAll("time[data-age]")) {
      each.textContent = sinceNow(each.dateTime);
    }
  }, 10_000);
}

export function clockTime(moment) {
  return moment ? new Date(moment).toLocaleTimeString() : "–";
}
