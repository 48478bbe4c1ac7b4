// Board of the sandbox. Text is only ever inserted as text nodes, so it cannot become markup.

const $ = (id) => document.getElementById(id);
let state = null;
let catalogue = null;
let sample = 0;

// Elements

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

// Updates a list. Unchanged entries keep their elements, and so their focus.
function fill(list, entries, key, build, { fresh = false } = {}) {
  const first = list.dataset.filled === undefined;
  list.dataset.filled = "";
  const wanted = new Set(entries.map((entry) => String(key(entry))));
  // Removes first: moving the elements below would lose their focus.
  for (const child of [...list.children].filter((each) => !wanted.has(each.dataset.key))) {
    const inside = child.contains(document.activeElement);
    child.remove();
    if (inside) refocus(list.closest("section").querySelector("h2"));
  }
  const before = new Map([...list.children].map((child) => [child.dataset.key, child]));
  let place = list.firstElementChild;
  for (const entry of entries) {
    const name = String(key(entry));
    const signature = JSON.stringify(entry);
    let child = before.get(name);
    if (child === undefined || child.signature !== signature) {
      const made = build(entry);
      made.dataset.key = name;
      made.signature = signature;
      if (child === undefined) {
        if (fresh && !first) made.classList.add("fresh");
      } else {
        const inside = child.contains(document.activeElement);
        const held = inside ? document.activeElement.dataset.focus : undefined;
        if (place === child) place = made;
        child.replaceWith(made);
        if (inside) refocus((held && made.querySelector(`[data-focus="${CSS.escape(held)}"]`)) || made.querySelector("[data-rest]"));
      }
      child = made;
    }
    if (child === place) place = place.nextElementSibling;
    else list.insertBefore(child, place);
  }
}

// Changes by others must not scroll the page.
const refocus = (heir) => heir?.focus({ preventScroll: true });

function chip(kind, sign, words) {
  return element("span", { class: `chip ${kind}` }, element("span", { "aria-hidden": "true" }, sign), words);
}

function put(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}

// Words

const plural = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
const list = (words) => new Intl.ListFormat("en").format(words);
const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");
const person = (who) => (who ? who.split("@")[0] : "somebody");
const program = (call) => `${person(call.caller)}${call.login > 1 ? ` (login ${call.login})` : ""}`;
const date = (day) => {
  const moment = new Date(`${day}T00:00:00Z`);
  const words = { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" };
  return Number.isNaN(moment.getTime()) ? day : moment.toLocaleDateString("en-GB", words);
};
const reference = (index) => state.requests.find((request) => request.index === index)?.ref ?? `request ${index}`;

function ago(seconds) {
  const passed = Math.max(0, Math.round(Date.now() / 1000 - seconds));
  if (passed < 10) return "just now";
  if (passed < 60) return `${Math.floor(passed / 10) * 10} s ago`;
  if (passed < 3600) return `${Math.floor(passed / 60)} min ago`;
  return passed < 86400 ? `${Math.floor(passed / 3600)} h ago` : `${Math.floor(passed / 86400)} d ago`;
}

function since(seconds) {
  const when = new Date(seconds * 1000);
  return element("time", { class: "ref push", datetime: when.toISOString(), "data-since": seconds, title: when.toLocaleString("en-GB") }, ago(seconds));
}

// Requests to the exchange

const SILENT = "The exchange does not answer. Is it still running?";
const UNKNOWN = "The exchange did not answer within 10 seconds. Check whether the action took effect before you repeat it.";

// Ignores presses until the answer comes. The attribute `disabled` would lose the focus.
function guardRepeats(doing, pressed) {
  let busy = false;
  return async (event) => {
    event.preventDefault();
    if (busy) return;
    const button = pressed ?? event.currentTarget;
    busy = true;
    button.setAttribute("aria-disabled", "true");
    try {
      await doing();
    } finally {
      busy = false;
      button.removeAttribute("aria-disabled");
    }
  };
}

// Runs an action. `words` announces it; `counts` is its key among the changes, so that it is not announced twice.
async function act(what, values, complaint, { words = "", counts = null, refused = (reason) => reason } = {}) {
  put(complaint, "");
  for (const each of document.querySelectorAll(`[aria-describedby="${complaint}"]`)) each.removeAttribute("aria-describedby");
  // Recorded before it is sent: the change may arrive before the answer.
  const mine = { counts, revision: Infinity };
  ownActions.add(mine);
  try {
    const answer = await fetch(`/board/${what}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(values),
      signal: AbortSignal.timeout(10_000),
    });
    const body = await answer.json();
    if (answer.ok) {
      mine.revision = body.revision;
      say(words);
      return true;
    }
    ownActions.delete(mine);
    put(complaint, refused(body.message));
    return body;
  } catch (error) {
    ownActions.delete(mine);
    put(complaint, error.name === "TimeoutError" ? UNKNOWN : SILENT);
  }
  return false;
}

const pause = (milliseconds) => new Promise((resume) => setTimeout(resume, milliseconds));
const isLost = () => $("link").dataset.state === "lost";

function setConnection(connection, words) {
  if (connection === "lost" && !isLost()) say($("lost").textContent);
  $("link").dataset.state = connection;
  $("lost").hidden = connection !== "lost";
  put("link-words", words);
}

// Waits for a time, or until the page's visibility changes.
function waitHidden(milliseconds) {
  return new Promise((resume) => {
    const done = () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", done);
      resume();
    };
    const timer = setTimeout(done, milliseconds);
    document.addEventListener("visibilitychange", done);
  });
}

async function follow() {
  for (;;) {
    if (document.hidden && state !== null) await waitHidden(10_000);
    try {
      // After a lost connection the revision may have started anew, so the current state is requested.
      // A hidden page does not hold a connection open: a browser has few of them.
      const after = isLost() || document.hidden ? 0 : state?.revision ?? 0;
      // Longer than the server waits for a change (20 s).
      const answer = await fetch(`/board/state?after=${after}`, { signal: AbortSignal.timeout(30_000) });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const next = await answer.json();
      if (document.hidden && state !== null) {
        // The rest is shown when the page becomes visible.
        showTitle(next);
        continue;
      }
      if (isLost()) announceReturn(next);
      else if (state !== null) announce(state, next);
      setConnection("live", "Live");
      state = next;
      show();
      // Collects changes that come in quick succession.
      await pause(150);
    } catch {
      setConnection("lost", "Not connected");
      await pause(1000);
    }
  }
}

// Screen reader announcements: own actions at once, summaries of other changes at most every three seconds

const sentences = [];
const ownActions = new Set();
const news = new Map();

function say(sentence) {
  if (!sentence) return;
  sentences.push(sentence);
  // Joined, because a text that is replaced at once is not announced.
  if (sentences.length === 1) setTimeout(() => { $("news").textContent = sentences.splice(0).join(" "); }, 150);
}

let waiting;
function sayLater(words) {
  clearTimeout(waiting);
  waiting = setTimeout(() => say(words), 700);
}

function announceReturn({ counts }) {
  ownActions.clear();
  news.clear();
  for (const complaint of ["publish-error", "act-error", "faults-error"]) {
    if ($(complaint).textContent === SILENT) put(complaint, "");
  }
  say(`The exchange is back: ${plural(counts.open, "open request")}, ${plural(counts.waiting, "offer")} waiting.`);
}

const SUMS = {
  requests: (count) => plural(count, "new request"),
  offers: (count) => plural(count, "new offer"),
  approved: (count) => `${plural(count, "offer")} approved`,
  declined: (count) => `${plural(count, "offer")} declined`,
  gone: (count) => `${plural(count, "offer")} gone`,
  withdrawn: (count) => `${plural(count, "request")} withdrawn`,
  struck: (count) => `${plural(count, "call")} struck by a fault`,
};
const DECLINED = new Set(["declined", "rejected"]);

// Counts the changes between two states, by kind.
function changesBetween(before, after) {
  const found = new Map();
  const count = (what, times = 1) => { if (times > 0) found.set(what, (found.get(what) ?? 0) + times); };
  const more = (of) => of(after.counts) - of(before.counts);
  count("requests", more((counts) => counts.open + counts.selected + counts.withdrawn));
  count("approved", more((counts) => counts.selected));
  count("withdrawn", more((counts) => counts.withdrawn));
  count("struck", more((counts) => counts.struck));
  const statuses = (of) => new Map(of.requests.flatMap((request) => request.offers.map((offer) => [offer.id, offer.status])));
  const [then, now] = [statuses(before), statuses(after)];
  for (const [id, status] of now) {
    if (!then.has(id)) count("offers");
    if (DECLINED.has(status) && !DECLINED.has(then.get(id))) count("declined");
  }
  const there = new Set(after.requests.map((request) => request.index));
  for (const request of before.requests.filter((each) => there.has(each.index))) {
    count("gone", request.offers.filter((offer) => !now.has(offer.id)).length);
  }
  const [ids, left] = [before, after].map(({ armed }) => new Set(armed.map((each) => each.id)));
  for (const armed of after.armed) if (!ids.has(armed.id)) count(`on ${armed.label}`);
  for (const armed of before.armed.filter((each) => !left.has(each.id))) {
    count(`${armed.times !== null && found.has("struck") ? "spent" : "off"} ${armed.label}`);
  }
  for (const { name, label } of catalogue.quirks) {
    if (!(name in after.quirks)) { if (name in before.quirks) count(`off ${label}`); }
    else if (after.quirks[name] !== before.quirks[name]) count(`on ${label}: ${value(after.quirks[name])}`);
  }
  return found;
}

function announce(before, after) {
  const found = changesBetween(before, after);
  for (const mine of ownActions) {
    // Own actions were announced already.
    const times = found.get(mine.counts);
    if (times) {
      found.set(mine.counts, times - 1);
      ownActions.delete(mine);
    } else if (mine.revision <= after.revision) ownActions.delete(mine);
  }
  const due = news.size > 0;
  for (const [what, times] of found) if (times) news.set(what, (news.get(what) ?? 0) + times);
  if (due || !news.size) return;
  setTimeout(() => {
    const switched = (kind) => [...news.keys()].filter((what) => what.startsWith(`${kind} `)).map((what) => what.slice(kind.length + 1));
    const sums = Object.keys(SUMS).filter((what) => news.has(what)).map((what) => SUMS[what](news.get(what)));
    const groups = [["Switched on", switched("on")], ["Used up", switched("spent")], ["Switched off", switched("off")]];
    news.clear();
    say(sums.length ? `${sums.join(", ")}.` : "");
    for (const [words, labels] of groups) if (labels.length) say(`${words}: ${labels.length > 3 ? `${labels.length} faults or quirks` : list(labels)}.`);
  }, 3000);
}

// Requests and offers

const FILTERS = {
  all: () => true,
  open: (request) => request.state === "open",
  offers: (request) => request.offers.length > 0,
  selected: (request) => request.state === "selected",
};

function statusChip(request) {
  if (request.state === "selected") return chip("good", "✓", "Approved");
  if (request.state === "withdrawn") return chip("plain", "✕", "Withdrawn");
  const waiting = request.offers.filter((offer) => offer.status === "pending").length;
  return waiting ? chip("warn", "●", `${plural(waiting, "offer")} waiting`) : chip("", "○", request.offers.length ? "No offer waiting" : "Open, no offer yet");
}

function requestItem(request) {
  const waiting = request.state === "open" && request.offers.some((offer) => offer.status === "pending");
  const facts = [
    element("b", {}, request.commodity),
    request.type,
    `${Number(request.quantity).toLocaleString("en")} ${request.packaging}${request.quantity === 1 ? "" : "s"}`,
    `${request.volume} m³`,
    `${request.weight} kg`,
    request.incoterm,
    `by ${date(request.arrival)}`,
  ];
  const title = `request-${request.index}`;
  return element(
    "li",
    {},
    element(
      "article",
      { class: `request ${waiting ? "offered" : request.state}`, "aria-labelledby": title },
      element(
        "div",
        {},
        element("h3", { id: title, tabindex: "-1", "data-rest": "" }, `${request.origin} → ${request.destination}`),
        element("span", { class: "ref" }, request.ref),
        request.hazardous ? chip("bad", "▲", "Dangerous goods") : null,
        statusChip(request),
        request.state === "open" ? requestButtons(request) : null,
      ),
      element("div", {}, element("p", { class: "facts" }, facts.flatMap((fact, at) => (at ? [" · ", fact] : [fact]))), since(request.created)),
      request.notes ? element("p", { class: "facts" }, request.notes) : null,
      request.offers.length ? offersTable(request) : null,
      contacts(request),
    ),
  );
}

function requestButtons(request) {
  const act_ = (what, done) => guardRepeats(() => act(what, { request: request.index }, "act-error", done));
  const rival = { words: `The rival has made an offer on ${request.ref}.`, counts: "offers" };
  const withdrawn = { words: `You have withdrawn ${request.ref}.`, counts: "withdrawn" };
  return element(
    "span",
    { class: "push" },
    element("button", { type: "button", class: "small", "data-focus": `rival-${request.index}`, "aria-label": `Let the rival make an offer on ${request.ref}`, onclick: act_("offer_as_rival", rival) }, "Let the rival offer"),
    element("button", { type: "button", class: "small", "data-focus": `withdraw-${request.index}`, "aria-label": `Withdraw ${request.ref}`, onclick: act_("withdraw", withdrawn) }, "Withdraw"),
  );
}

function offersTable(request) {
  const head = ["Amount", "Detail", "Answer"].map((word) => element("th", { scope: "col", class: word.toLowerCase() }, word));
  const number = (offer) => Number(offer.amount.replaceAll(",", ""));
  const rivals = request.offers.filter((offer) => offer.status === "pending");
  const lowest = rivals.length > 1 && new Set(rivals.map((offer) => offer.currency)).size === 1
    ? Math.min(...rivals.map(number)) : null;
  return element(
    "table",
    { class: "offers" },
    element("caption", { class: "hidden" }, `Offers on ${request.ref}`),
    element("thead", { class: "hidden" }, element("tr", {}, head)),
    element("tbody", {}, request.offers.map((offer) => offerRow(request, offer, number(offer) === lowest))),
  );
}

const OFFER_SIGNS = { pending: ["warn", "●", "Waiting"], selected: ["good", "✓", "Approved"], declined: ["plain", "✕", "Declined"], rejected: ["plain", "✕", "Rejected"] };

function offerRow(request, offer, lowest) {
  const detail = [...offer.rates.map(([fee, amount]) => `${fee} ${amount}`), offer.terms ?? ""].filter(Boolean).join(" · ");
  const sum = `${offer.currency} ${offer.amount}`;
  const answer = (approved) => guardRepeats(async () => {
    const which = `the offer of ${sum} on ${request.ref}`;
    const declined = state.quirks.decline_outcome === "removed" ? "gone" : "declined";
    const mine = approved
      ? { words: `You have approved ${which}. Each side has the other's contact now.`, counts: "approved" }
      : { words: `You have declined ${which}.`, counts: declined };
    const done = await act("respond", { offer: offer.id, approved }, "act-error", mine);
    if (done === true) $(`request-${request.index}`)?.focus();
  });
  const button = (name, approved, kind) =>
    element("button", { type: "button", class: `small ${kind}`, "data-focus": `${name}-${offer.id}`, "aria-label": `${name} the offer of ${sum} on ${request.ref}`, onclick: answer(approved) }, name);
  const open = request.state === "open" && offer.status === "pending";
  const [kind, sign, word] = request.state !== "open" && offer.status === "pending" ? ["plain", "–", "Not taken"] : OFFER_SIGNS[offer.status] ?? ["plain", "?", offer.status];
  return element(
    "tr",
    { "data-offer": offer.id, class: offer.own ? "own" : null },
    element("td", { class: "amount" }, sum),
    element(
      "td",
      { class: "detail" },
      element("div", {}, offer.own ? chip("", "★", "Your bot") : null, lowest ? chip("good", "↓", "Lowest") : null, element("span", {}, detail || "No details")),
    ),
    element("td", { class: "answer" }, open ? [button("Approve", 1, "primary"), button("Decline", 0, "")] : chip(kind, sign, word)),
  );
}

function contacts(request) {
  const offer = request.offers.find((each) => each.forwarder);
  if (!offer) return null;
  const card = (title, who) =>
    element(
      "section",
      {},
      element("h4", {}, title),
      element("p", {}, element("b", {}, who.name), ` · ${who.email}`),
      element("p", {}, who.company, who.phone ? ` · ${who.phone}` : ""),
      element("p", {}, who.address),
    );
  return element("div", { class: "contacts" }, card("The forwarder, named to the shipper", offer.forwarder), card("The shipper, named to the forwarder", offer.shipper));
}

// Shows the requests that match the filter and the search; returns their count.
function showRequests() {
  const filter = FILTERS[document.querySelector("#filter input:checked").value];
  const words = $("find").value.trim().toLowerCase();
  const fits = (request) => !words || [request.ref, request.commodity, request.origin, request.destination, request.type].join(" ").toLowerCase().includes(words);
  const shown = state.requests.filter((request) => filter(request) && fits(request));
  fill($("requests"), shown, (request) => request.index, requestItem, { fresh: true });
  $("nothing").hidden = shown.length > 0;
  put("nothing", state.requests.length ? "No request matches." : "No request yet. Publish one: fill in the form, or take an example.");
  put("hidden-count", state.hidden ? `${plural(state.hidden, "more request")} not shown. Open requests come first.` : "");
  return shown.length;
}

// Faults and quirks

const value = (words) => (words === null ? "none" : words === true ? "yes" : words === false ? "no" : words === "" ? "no header" : String(words).replaceAll("_", " "));

function showActive() {
  const often = (armed) => (armed.times === null ? "until switched off" : armed.times === 1 ? "the next call" : `the next ${armed.times} calls`);
  const quirks = Object.entries(state.quirks).map(([name, now]) => ({ name, now }));
  const rows = [
    ...state.armed.map((armed) => ({ key: `fault-${armed.id}`, words: armed.label, label: armed.label, more: `${armed.at}, ${often(armed)}`, off: ["disarm", { id: armed.id }] })),
    ...quirks.map(({ name, now }) => {
      const quirk = catalogue.quirks.find((each) => each.name === name);
      return { key: `quirk-${name}`, words: `${quirk.label}: ${value(now)}`, label: quirk.label, more: `default: ${value(quirk.default)}`, off: ["set_quirk", { name, value: quirk.default }] };
    }),
  ];
  if (!rows.length) rows.push({ key: "none", words: "" });
  fill($("active"), rows, (row) => row.key, (row) => {
    if (!row.words) return element("p", {}, "Nothing is switched on: the exchange behaves as documented.");
    const off = () => act(...row.off, "faults-error", { words: `Switched off: ${row.label}.`, counts: `off ${row.label}` });
    return element(
      "div",
      {},
      element("span", {}, row.words, element("small", {}, row.more)),
      element("button", { type: "button", class: "small", "data-focus": row.key, "aria-label": `Switch off: ${row.words}`, onclick: off }, "Switch off"),
    );
  });
}

function listedEntries() {
  const kind = document.querySelector("#suggestion-kind input:checked").value;
  const words = $("search").value.trim().toLowerCase();
  if (kind === "quirks") {
    const all = catalogue.quirks;
    const found = words ? all.filter((quirk) => `${quirk.name} ${quirk.label} ${quirk.meaning}`.toLowerCase().includes(words)) : all.filter((quirk) => quirk.suggested);
    return { kind, all, found };
  }
  const plain = new Map(catalogue.suggested_faults.map((entry) => [entry.fault, entry]));
  const all = [
    ...catalogue.suggested_faults.map((entry) => ({ name: entry.fault, label: entry.label, explanation: entry.explanation, operation: entry.operation, times: entry.times })),
    ...catalogue.faults.filter((fault) => !plain.has(fault.name)).map((fault) => ({ ...fault, explanation: fault.name.replaceAll("_", " ") })),
  ];
  const found = words ? all.filter((fault) => `${fault.name} ${fault.label} ${fault.explanation}`.toLowerCase().includes(words)) : all.slice(0, plain.size);
  return { kind, all, found };
}

// Shows the entries that match the search; returns their count in words.
function showSuggestions() {
  const { kind, all, found } = listedEntries();
  $("choices").hidden = kind === "quirks";
  const entries = kind === "quirks" ? found.map((quirk) => ({ ...quirk, now: quirk.name in state.quirks ? state.quirks[quirk.name] : quirk.default })) : found;
  fill($("suggestions"), entries, (entry) => `${kind}-${entry.name}`, kind === "quirks" ? quirkItem : faultItem);
  const count = `${found.length} of ${plural(all.length, kind.slice(0, -1))}`;
  const tip = found.length < all.length ? `. Search for the others, such as ${kind === "quirks" ? "“offer” or “date”" : "“login” or “gzip”"}.` : ".";
  const isSearch = $("search").value.trim() !== "";
  put("suggestion-count", isSearch ? `${found.length === 0 ? `None of ${plural(all.length, kind.slice(0, -1))}` : count} ${found.length === 1 || found.length === 0 ? "matches" : "match"}.` : `${count}${tip}`);
  return plural(found.length, kind.slice(0, -1));
}

function faultItem(fault) {
  const on = guardRepeats(async () => {
    const operation = $("c-operation").value;
    const times = $("c-times").value;
    const phase = $("c-phase").value;
    const values = {
      name: fault.name,
      operation: operation === "" ? fault.operation : operation === "any" ? "" : operation,
      processed: phase === "" ? null : phase === "after",
    };
    const often = times === "" ? fault.times : times === "always" ? null : Number(times);
    if (often !== null) values.times = often;
    await act("arm", values, "faults-error", { words: `Switched on: ${fault.label}.`, counts: `on ${fault.label}` });
  });
  return element(
    "li",
    {},
    element("div", {}, element("b", {}, fault.label), element("small", {}, fault.explanation)),
    element("button", { type: "button", class: "small", "data-focus": `arm-${fault.name}`, "aria-label": `Switch on: ${fault.label}`, onclick: on }, "Switch on"),
  );
}

function quirkItem(quirk) {
  const id = `quirk-${quirk.name}`;
  const setQuirk = async (control, now, written) => {
    const words = `${quirk.label}: ${value(now)}`;
    const mine = now === quirk.default
      ? { words: `Switched off: ${quirk.label}.`, counts: `off ${quirk.label}` }
      : { words: `Switched on: ${words}.`, counts: `on ${words}` };
    mine.refused = (reason) => `${quirk.label}: ${written} was refused. ${reason} The value is still ${value(quirk.now)}.`;
    // Unreadable input is refused here; an empty value would mean the default.
    if (now === undefined) put("faults-error", mine.refused("Give a number."));
    else if ((await act("set_quirk", { name: quirk.name, value: now }, "faults-error", mine)) === true) return;
    // The field shows the value in force; the message says why.
    if (quirk.choices) control.selectedIndex = quirk.choices.indexOf(quirk.now);
    else control.value = quirk.now ?? "";
    control.setAttribute("aria-describedby", "faults-error");
  };
  const control = quirk.choices
    ? element(
        "select",
        { id, "data-focus": id, onchange: ({ target }) => setQuirk(target, quirk.choices[target.selectedIndex], value(quirk.choices[target.selectedIndex])) },
        quirk.choices.map((choice) => element("option", { selected: choice === quirk.now }, value(choice))),
      )
    : element("input", {
        id,
        "data-focus": id,
        type: "number",
        min: "0",
        step: "any",
        value: quirk.now ?? "",
        placeholder: quirk.default === null ? "none" : null,
        onchange: ({ target }) => setQuirk(target, read(target, quirk.default), target.value || "what you wrote"),
      });
  return element("li", {}, element("div", {}, element("label", { for: id }, element("b", {}, quirk.label)), quirk.label.toLowerCase() === quirk.meaning.toLowerCase() ? null : element("small", {}, quirk.meaning)), control);
}

// Returns the number in a field, `empty` for an empty field, `undefined` for anything else.
function read(field, empty) {
  if (field.validity.badInput) return undefined;
  return field.value === "" ? empty : Number(field.value);
}

// Calls

function strikeItem(strike) {
  const about = strike.request === null ? "" : ` on ${reference(strike.request)}`;
  const offer = strike.offers !== null;
  const kind = !offer ? "" : strike.offers === 1 ? "good" : strike.offers > 1 ? "bad" : "";
  const verdict = !offer
    ? null
    : strike.offers === 1
      ? chip("good", "✓", "One offer stands: recovered")
      : strike.offers > 1
        ? chip("bad", "▲", `${strike.offers} offers stand: sent more than once`)
        : chip("warn", "○", "No offer stands yet");
  const steps = strike.next_calls.map((step) =>
    element("li", {}, `${step.login === strike.login ? "" : `${program(step)} `}${list(step.actions)}${step.request === null ? "" : ` on ${reference(step.request)}`}${step.count > 1 ? ` × ${step.count}` : ""}${step.fault ? ", and is struck again" : step.status >= 400 ? `, and gets status ${step.status}` : ""}`),
  );
  return element(
    "li",
    { class: kind },
    element("b", {}, strike.fault),
    element("p", {}, `${program(strike)} ${list(strike.actions)}${about}; the exchange ${strike.processed ? "carried it out" : "did nothing"}.`),
    steps.length ? element("p", {}, "What the caller did next:") : element("p", {}, "The caller has done nothing since."),
    steps.length ? element("ol", {}, steps) : null,
    verdict ? element("p", {}, verdict) : null,
  );
}

function callItem(call) {
  const failed = call.fault !== null || call.status >= 400;
  const about = call.request === null ? "" : ` on ${reference(call.request)}`;
  const count = call.count > 1 ? ` × ${call.count}` : "";
  return element(
    "li",
    { title: call.address },
    element("time", { datetime: new Date(call.time * 1000).toISOString() }, clock(call.time)),
    element("span", {}, `${program(call)} ${list(call.actions)}${about}${count}`, call.fault ? element("small", {}, `Fault: ${call.fault}`) : null),
    element("span", { class: failed ? "bad" : "" }, call.status ? `${failed ? "✕" : "✓"} ${call.status}` : "✕ no answer"),
  );
}

const EVENT_WORDS = {
  published: () => "publishes",
  updated: () => "changes",
  withdrawn: () => "withdraws",
  offered: ({ amount }) => `offers ${amount} on`,
  approved: ({ amount }) => `approves ${amount} on`,
  declined: ({ amount }) => `declines ${amount} on`,
};

function eventItem(event) {
  return element(
    "li",
    {},
    element("time", { datetime: new Date(event.time * 1000).toISOString() }, clock(event.time)),
    element("span", {}, `${person(event.by)} ${EVENT_WORDS[event.kind](event)} ${reference(event.request)}`, element("small", {}, `An event for ${person(event.to)}`)),
    element("span", {}),
  );
}

function showTitle({ counts }) {
  document.title = `${counts.waiting ? `(${counts.waiting}) ` : ""}Freight exchange sandbox`;
}

function show() {
  for (const name of ["open", "waiting", "selected", "struck", "duplicates"]) put(`count-${name}`, state.counts[name].toLocaleString("en"));
  $("tile-duplicates").classList.toggle("broken", state.counts.duplicates > 0);
  showTitle(state);
  showRequests();
  showActive();
  showSuggestions();
  fill($("strikes"), state.strikes, (strike) => strike.number, strikeItem);
  $("strikes-empty").hidden = state.strikes.length > 0;
  fill($("events"), state.events, (event) => `${event.kind}-${event.request}-${event.offer}-${event.time}`, eventItem);
  $("events-empty").hidden = state.events.length > 0;
  fill($("calls"), state.calls, (call) => call.number, callItem);
  $("calls-empty").hidden = state.calls.length > 0;
}

// The form

const form = $("publish");
// `elements.length` is the number of fields, so the field `length` needs `namedItem`.
const input = (name) => form.elements.namedItem(name);

const NUMBERS = ["quantity", "weight", "length", "width", "height"];

// Number fields accept `.5` and `1e3`, which the exchange refuses as text; they are sent as numbers.
const plain = (text) => (/^\d+(\.\d+)?$/.test(text) ? text : Number(text));

function showSum() {
  const [quantity, weight, length, width, height] = NUMBERS.map((name) => Number(input(name).value));
  const figure = (amount, digits) => amount.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const parts = [
    length * width * height * quantity > 0 ? `Volume ${figure(length * width * height * quantity, 2)} m³` : "",
    weight * quantity > 0 ? `gross weight ${figure(weight * quantity, 0)} kg` : "",
  ].filter(Boolean);
  put("sum", parts.length ? parts.join(" · ") : "Volume and weight appear here.");
}

function markInvalid(field) {
  for (const each of form.elements) {
    each.removeAttribute("aria-invalid");
    each.removeAttribute("aria-describedby");
  }
  const wrong = field ? input(field) : null;
  if (!wrong) return;
  wrong.setAttribute("aria-invalid", "true");
  wrong.setAttribute("aria-describedby", "publish-error");
  wrong.focus();
}

const formEntries = () => [...new FormData(form)];

const publish = guardRepeats(async () => {
  const sent = formEntries();
  const values = Object.fromEntries(sent.filter(([, text]) => text !== ""));
  for (const name of NUMBERS) values[name] = plain(values[name]);
  values.hazardous = input("hazardous").checked ? 1 : 0;
  values.arrival = `${values.arrival} 00:00:00`;
  const words = `You have published ${values.commodityname}, from ${values.origin} to ${values.destination}.`;
  const done = await act("requests", values, "publish-error", { words, counts: "requests" });
  markInvalid(done && done !== true ? done.field : null);
  // Input during the request belongs to the next one.
  if (done !== true || JSON.stringify(formEntries()) !== JSON.stringify(sent)) return;
  form.reset();
  saveForm();
  showSum();
  input("commodityname").focus();
}, $("publish-button"));

function example() {
  const values = catalogue.samples[sample++ % catalogue.samples.length];
  for (const [name, content] of Object.entries(values)) {
    if (name === "hazardous") input(name).checked = content === 1;
    else input(name).value = name === "arrival" ? content.slice(0, 10) : content;
  }
  markInvalid(null);
  put("publish-error", "");
  saveForm();
  showSum();
  say(`The form is filled in with an example: ${values.commodityname}, from ${values.origin} to ${values.destination}.`);
}

// A half-typed form outlives a reload of its tab.
function saveForm() {
  store(sessionStorage, "form", JSON.stringify(formEntries()));
}

function restoreForm() {
  for (const [name, content] of JSON.parse(stored(sessionStorage, "form") ?? "[]")) {
    const field = input(name);
    if (field?.type === "checkbox") field.checked = true;
    else if (field) field.value = content;
  }
  showSum();
}

// The rest of the page

// Storage may be disabled.
function stored(storage, key) {
  try {
    return storage.getItem(key);
  } catch {
    return null;
  }
}

function store(storage, key, text) {
  try {
    storage.setItem(key, text);
  } catch {
    // What is not kept is typed again.
  }
}

// On a narrow screen the requests come first, and the form is folded below them.
const narrow = matchMedia("(max-width: 760px)");

function arrange() {
  $("publish-fold").open = !narrow.matches;
  if (narrow.matches) $("requests-column").after($("publish-column"));
  else $("requests-column").before($("publish-column"));
}

function openForm() {
  $("publish-fold").open = true;
  input("commodityname").focus();
}

function theme(choice) {
  const dark = choice ? choice === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}

function showConnection() {
  const forwarder = catalogue.accounts.find((account) => account.email === catalogue.forwarder);
  $("paste").textContent = `export FREIGHT_EXCHANGE_URL=${catalogue.url} FREIGHT_EXCHANGE_EMAIL=${forwarder.email} FREIGHT_EXCHANGE_PASSWORD=${forwarder.password}`;
  $("accounts").replaceChildren(
    ...catalogue.accounts.map((account) => element("tr", {}, [account.name, account.email, account.password, account.role].map((text) => element("td", {}, text)))),
  );
}

async function start() {
  $("theme").value = stored(localStorage, "theme") ?? "";
  theme($("theme").value);
  $("theme").addEventListener("change", () => {
    theme($("theme").value);
    store(localStorage, "theme", $("theme").value);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => theme($("theme").value));
  $("connect-button").addEventListener("click", () => {
    $("connect").hidden = !$("connect").hidden;
    $("connect-button").setAttribute("aria-expanded", String(!$("connect").hidden));
  });
  $("copy").addEventListener("click", async () => {
    getSelection().selectAllChildren($("paste"));
    try {
      await navigator.clipboard.writeText($("paste").textContent);
      put("copy", "Copied");
      say("Copied.");
    } catch {
      put("copy", "Press Ctrl+C");
      say("Press Ctrl+C to copy.");
    }
    setTimeout(() => put("copy", "Copy"), 2000);
  });
  form.addEventListener("submit", publish);
  form.addEventListener("input", () => {
    saveForm();
    showSum();
  });
  restoreForm();
  arrange();
  narrow.addEventListener("change", arrange);
  $("publish-link").addEventListener("click", openForm);
  $("example").addEventListener("click", example);
  const refilter = () => state && sayLater(`${plural(showRequests(), "request")} shown.`);
  $("filter").addEventListener("change", refilter);
  $("find").addEventListener("input", refilter);
  const search = () => state && sayLater(`${showSuggestions()} shown.`);
  $("suggestion-kind").addEventListener("change", search);
  $("search").addEventListener("input", search);
  while (catalogue === null) {
    try {
      catalogue = await (await fetch("/board/catalogue", { signal: AbortSignal.timeout(10_000) })).json();
    } catch {
      setConnection("lost", "Not connected");
      await pause(1000);
    }
  }
  showConnection();
  const places = new Set(catalogue.samples.flatMap((each) => [each.origin, each.destination]));
  $("places").append(...[...places].sort().map((place) => element("option", { value: place })));
  $("c-operation").append(
    element("option", { value: "" }, "as suggested"),
    element("option", { value: "any" }, "any call"),
    ...catalogue.operations.map((operation) => element("option", { value: operation.key }, operation.label)),
  );
  setInterval(() => {
    for (const moment of document.querySelectorAll("[data-since]")) {
      const words = ago(Number(moment.dataset.since));
      if (moment.textContent !== words) moment.textContent = words;
    }
  }, 5000);
  await follow();
}

start();
