// Keeps an open page up to date: after an event of the gateway the page is fetched again, and <main> is changed in place.
const REFRESH_MS = 2000;
const RETRY_MS = 10000;
const main = () => document.getElementById("main");
let last = 0;
let timer = 0;
let isLive = false;

// A field with the name of a property, such as `contains`, hides this property of its form.
const changedForms = new WeakSet();
const isInUse = (form) => document.activeElement?.closest("form") === form || changedForms.has(form);

// A table with selected rows is not changed, so that a ticked box stays beside its row.
const isSelecting = (node) => node.tagName === "TABLE" && node.querySelector("input:checked") !== null;

const callbacks = {
  // Keep the reader's own state: open details, and forms with input.
  beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS"),
  beforeNodeMorphed: (node) => !(node.tagName === "FORM" && isInUse(node)) && !isSelecting(node),
  beforeNodeRemoved: (node) => !(node.tagName === "FORM" && isInUse(node)),
};

async function refresh() {
  timer = 0;
  last = Date.now();
  let answer;
  try {
    answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  } catch {
    return;
  }
  if (answer.redirected) {
    location.reload();
    return;
  }
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById("main");
  if (!fresh) return;
  showLive(fresh);
  Idiomorph.morph(main(), fresh, { ignoreActiveValue: true, callbacks });
}

function changed() {
  if (timer || document.hidden) return;
  timer = setTimeout(refresh, Math.max(0, last + REFRESH_MS - Date.now()));
}

function showLive(part) {
  const live = part.querySelector("#live");
  if (!live) return;
  live.hidden = false;
  live.classList.toggle("off", !isLive);
  live.textContent = isLive ? "Live" : "Not live";
}

function follow(url) {
  const events = new EventSource(url);
  const show = (now) => {
    isLive = now;
    showLive(document);
  };
  events.addEventListener("open", () => show(true));
  events.addEventListener("error", () => {
    show(false);
    // A browser does not connect again after a refusal, such as 429, or after an error of a proxy.
    if (events.readyState === EventSource.CLOSED) setTimeout(follow, RETRY_MS * (1 + Math.random()), url);
  });
  events.addEventListener("changed", changed);
  addEventListener("pagehide", () => events.close());
}

document.addEventListener("input", (event) => {
  const form = event.target.closest("form");
  if (form) changedForms.add(form);
});
const live = document.body.dataset.live;
if (live) {
  follow(live);
  document.addEventListener("visibilitychange", changed);
  // A page that the browser restores from its history has lost its stream.
  addEventListener("pageshow", (event) => event.persisted && location.reload());
}
