// The sandbox's board. Texts become text nodes and nothing else: the page has no place where one could be markup.

const $ = (id) => document.getElementById(id);
let state = null;
let offered = null;
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

// Puts the entries into the list; what is as before stays as it is, with the focus in it.
function fill(list, entries, key, build, { fresh = false } = {}) {
  const first = list.dataset.filled === undefined;
  list.dataset.filled = "";
  const wanted = new Set(entries.map((entry) => String(key(entry))));
  // Before anything is placed: what stands below an entry that goes need not be moved, which would lose its focus.
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

// What others do must not scroll the page away from whoever reads it.
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
  return element("time", { class: "ref", datetime: when.toISOString(), "data-since": seconds, title: when.toLocaleString("en-GB") }, ago(seconds));
}

// Talking to the exchange

const SILENT = "The exchange does not answer. Is it still running?";
const UNKNOWN = "No answer has come for 10 seconds. It is not known whether it was taken: look before you repeat it.";

// A second press before the answer is no second wish. `disabled` would lose the focus.
function once(doing, pressed) {
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

// Does something. `own` has the words for whoever did it, and as what it is counted among the news.
async function act(what, values, complaint, { words = "", counts = null, refused = (reason) => reason } = {}) {
  put(complaint, "");
  for (const each of document.querySelectorAll(`[aria-describedby="${complaint}"]`)) each.removeAttribute("aria-describedby");
  // Noted before it is sent: its news may be here before its answer.
  const mine = { counts, revision: Infinity };
  own.add(mine);
  try {
    const answer = await fetch(`/board/${what}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(values),
      signal: AbortSignal.timeout(10_000),
    });
    const told = await answer.json();
    if (answer.ok) {
      mine.revision = told.revision;
      say(words);
      return true;
    }
    own.delete(mine);
    put(complaint, refused(told.message));
    return told;
  } catch (error) {
    own.delete(mine);
    put(complaint, error.name === "TimeoutError" ? UNKNOWN : SILENT);
  }
  return false;
}

const pause = (milliseconds) => new Promise((resume) => setTimeout(resume, milliseconds));
const lost = () => $("link").dataset.state === "lost";

function told(connection, words) {
  if (connection === "lost" && !lost()) say("The exchange does not answer. This page tries again by itself.");
  $("link").dataset.state = connection;
  put("link-words", words);
}

// So long, or until somebody looks at the page or away from it.
function unseen(milliseconds) {
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
    if (document.hidden && state !== null) await unseen(10_000);
    try {
      // An exchange that is back may count from the beginning: it is asked for what there is now.
      // A window that nobody sees does not wait for news: a browser has few connections for all of them.
      const after = lost() || document.hidden ? 0 : state?.revision ?? 0;
      // Half as long again as the server waits for news.
      const answer = await fetch(`/board/state?after=${after}`, { signal: AbortSignal.timeout(30_000) });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const next = await answer.json();
      if (document.hidden && state !== null) {
        // The rest is told to whoever comes back.
        entitle(next);
        continue;
      }
      if (lost()) greet(next);
      else if (state !== null) announce(state, next);
      told("live", "Live");
      state = next;
      show();
      // What happens meanwhile comes in one piece.
      await pause(150);
    } catch {
      told("lost", "Not connected: trying again");
      await pause(1000);
    }
  }
}

// What a screen reader says: own acts at once, and sums of what else happened, at most every three seconds

const sentences = [];
const own = new Set();
const news = new Map();

function say(sentence) {
  if (!sentence) return;
  sentences.push(sentence);
  // In one piece: what is replaced at once is not heard.
  if (sentences.length === 1) setTimeout(() => { $("news").textContent = sentences.splice(0).join(" "); }, 150);
}

let waiting;
function sayLater(words) {
  clearTimeout(waiting);
  waiting = setTimeout(() => say(words), 700);
}

function greet({ counts }) {
  own.clear();
  news.clear();
  for (const complaint of ["publish-error", "act-error", "trouble-error"]) {
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

// How often what has happened from one state to the other.
function happened(before, after) {
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
  for (const { name, label } of offered.habits) {
    if (!(name in after.habits)) { if (name in before.habits) count(`off ${label}`); }
    else if (after.habits[name] !== before.habits[name]) count(`on ${label}: ${value(after.habits[name])}`);
  }
  return found;
}

function announce(before, after) {
  const found = happened(before, after);
  for (const mine of own) {
    // What a person did was said when it was done.
    const times = found.get(mine.counts);
    if (times) {
      found.set(mine.counts, times - 1);
      own.delete(mine);
    } else if (mine.revision <= after.revision) own.delete(mine);
  }
  const due = news.size > 0;
  for (const [what, times] of found) if (times) news.set(what, (news.get(what) ?? 0) + times);
  if (due || !news.size) return;
  setTimeout(() => {
    const switched = (kind) => [...news.keys()].filter((what) => what.startsWith(`${kind} `)).map((what) => what.slice(kind.length + 1));
    const sums = Object.keys(SUMS).filter((what) => news.has(what)).map((what) => SUMS[what](news.get(what)));
    const said = [["Switched on", switched("on")], ["Used up", switched("spent")], ["Switched off", switched("off")]];
    news.clear();
    say(sums.length ? `${sums.join(", ")}.` : "");
    for (const [words, labels] of said) if (labels.length) say(`${words}: ${labels.length > 3 ? `${labels.length} faults or habits` : list(labels)}.`);
  }, 3000);
}

// Requests and offers

const FILTERS = {
  all: () => true,
  open: (request) => request.state === "open",
  offers: (request) => request.offers.length > 0,
  selected: (request) => request.state === "selected",
};

function standing(request) {
  if (request.state === "selected") return chip("good", "✓", "Approved");
  if (request.state === "withdrawn") return chip("plain", "✕", "Withdrawn");
  const waiting = request.offers.filter((offer) => offer.status === "pending").length;
  return waiting ? chip("warn", "●", `${plural(waiting, "offer")} waiting`) : chip("", "○", "Open, no offer yet");
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
        standing(request),
        request.state === "open" ? doings(request) : element("span", { class: "push" }),
        since(request.created),
      ),
      element("p", { class: "facts" }, facts.flatMap((fact, at) => (at ? [" · ", fact] : [fact]))),
      request.notes ? element("p", { class: "facts" }, request.notes) : null,
      request.offers.length ? offersTable(request) : null,
      contacts(request),
    ),
  );
}

function doings(request) {
  const act_ = (what, done) => once(() => act(what, { request: request.index }, "act-error", done));
  const rival = { words: `The rival has made an offer on ${request.ref}.`, counts: "offers" };
  const withdrawn = { words: `You have withdrawn ${request.ref}.`, counts: "withdrawn" };
  return element(
    "span",
    { class: "push" },
    element("button", { type: "button", class: "quiet", "data-focus": `compete-${request.index}`, "aria-label": `Let the rival make an offer on ${request.ref}`, onclick: act_("compete", rival) }, "Let the rival offer"),
    element("button", { type: "button", class: "quiet", "data-focus": `withdraw-${request.index}`, "aria-label": `Withdraw ${request.ref}`, onclick: act_("withdraw", withdrawn) }, "Withdraw"),
  );
}

function offersTable(request) {
  const head = ["Amount", "Detail", "Status", "Answer"].map((word) => element("th", { scope: "col", class: word.toLowerCase() }, word));
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
  const answer = (approved) => once(async () => {
    const which = `the offer of ${sum} on ${request.ref}`;
    const declined = state.habits.decline_outcome === "removed" ? "gone" : "declined";
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
    { "data-offer": offer.id },
    element("td", { class: "amount" }, sum),
    element("td", { class: "detail" }, detail || "No particulars", lowest ? element("span", {}, " ", chip("good", "↓", "lowest")) : null),
    element("td", { class: "status" }, chip(kind, sign, word)),
    element("td", { class: "answer" }, open ? [button("Approve", 1, "primary"), button("Decline", 0, "")] : null),
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

// Shows those that the filter and the search leave; how many.
function showRequests() {
  const filter = FILTERS[document.querySelector("#filter input:checked").value];
  const words = $("find").value.trim().toLowerCase();
  const fits = (request) => !words || [request.ref, request.commodity, request.origin, request.destination, request.type].join(" ").toLowerCase().includes(words);
  const shown = state.requests.filter((request) => filter(request) && fits(request));
  fill($("requests"), shown, (request) => request.index, requestItem, { fresh: true });
  $("nothing").hidden = shown.length > 0;
  put("nothing", state.requests.length ? "No request is like that." : "No request yet. Publish one: fill in the form, or take an example.");
  put("hidden-count", state.hidden ? `${plural(state.hidden, "more request")} not shown: those that are open come first.` : "");
  return shown.length;
}

// Faults and habits

const value = (words) => (words === null ? "none" : words === true ? "yes" : words === false ? "no" : words === "" ? "no header" : String(words).replaceAll("_", " "));

function showOn() {
  const often = (armed) => (armed.times === null ? "until switched off" : armed.times === 1 ? "the next call" : `the next ${armed.times} calls`);
  const habits = Object.entries(state.habits).map(([name, now]) => ({ name, now }));
  const rows = [
    ...state.armed.map((armed) => ({ key: `fault-${armed.id}`, words: armed.label, label: armed.label, more: `${armed.at}, ${often(armed)}`, off: ["disarm", { id: armed.id }] })),
    ...habits.map(({ name, now }) => {
      const habit = offered.habits.find((each) => each.name === name);
      return { key: `habit-${name}`, words: `${habit.label}: ${value(now)}`, label: habit.label, more: `usually ${value(habit.default)}`, off: ["turn", { name, value: habit.default }] };
    }),
  ];
  if (!rows.length) rows.push({ key: "none", words: "" });
  fill($("on"), rows, (row) => row.key, (row) => {
    if (!row.words) return element("p", {}, "Nothing is switched on: the exchange does as its document says.");
    const off = () => act(...row.off, "trouble-error", { words: `Switched off: ${row.label}.`, counts: `off ${row.label}` });
    return element(
      "div",
      {},
      element("span", {}, row.words, element("small", {}, row.more)),
      element("button", { type: "button", class: "small", "data-focus": row.key, "aria-label": `Switch off: ${row.words}`, onclick: off }, "Switch off"),
    );
  });
}

function suggested() {
  const kind = document.querySelector("#shelf-kind input:checked").value;
  const words = $("search").value.trim().toLowerCase();
  if (kind === "habits") {
    const all = offered.habits;
    const found = words ? all.filter((habit) => `${habit.name} ${habit.label} ${habit.meaning}`.toLowerCase().includes(words)) : all.filter((habit) => habit.shelved);
    return { kind, all, found };
  }
  const plain = new Map(offered.shelf.map((entry) => [entry.fault, entry]));
  const all = [
    ...offered.shelf.map((entry) => ({ name: entry.fault, label: entry.label, explains: entry.explains, operation: entry.operation, times: entry.times })),
    ...offered.faults.filter((fault) => !plain.has(fault.name)).map((fault) => ({ ...fault, explains: fault.name.replaceAll("_", " ") })),
  ];
  const found = words ? all.filter((fault) => `${fault.name} ${fault.label} ${fault.explains}`.toLowerCase().includes(words)) : all.slice(0, plain.size);
  return { kind, all, found };
}

// Shows those that the search leaves; how many of what.
function showShelf() {
  const { kind, all, found } = suggested();
  $("choices").hidden = kind === "habits";
  const entries = kind === "habits" ? found.map((habit) => ({ ...habit, now: habit.name in state.habits ? state.habits[habit.name] : habit.default })) : found;
  fill($("shelf"), entries, (entry) => `${kind}-${entry.name}`, kind === "habits" ? habitItem : faultItem);
  const rest = all.length - found.length;
  put("shelf-more", found.length === 0 ? "None is like that." : rest > 0 ? `${rest} more ${kind}: find them by a word, such as ${kind === "habits" ? "“offer” or “date”" : "“login” or “gzip”"}.` : "");
  return plural(found.length, kind.slice(0, -1));
}

function faultItem(fault) {
  const on = once(async () => {
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
    await act("arm", values, "trouble-error", { words: `Switched on: ${fault.label}.`, counts: `on ${fault.label}` });
  });
  return element(
    "li",
    {},
    element("div", {}, element("b", {}, fault.label), element("small", {}, fault.explains)),
    element("button", { type: "button", class: "small", "data-focus": `arm-${fault.name}`, "aria-label": `Switch on: ${fault.label}`, onclick: on }, "Switch on"),
  );
}

function habitItem(habit) {
  const id = `habit-${habit.name}`;
  const turn = async (control, now, written) => {
    const words = `${habit.label}: ${value(now)}`;
    const mine = now === habit.default
      ? { words: `Switched off: ${habit.label}.`, counts: `off ${habit.label}` }
      : { words: `Switched on: ${words}.`, counts: `on ${words}` };
    mine.refused = (reason) => `${habit.label}: ${written} was not taken. ${reason} It stays as it was: ${value(habit.now)}.`;
    // What cannot be read as a number is no number for the exchange either, and nothing is not what was meant.
    if (now === undefined) put("trouble-error", mine.refused("Give a number."));
    else if ((await act("turn", { name: habit.name, value: now }, "trouble-error", mine)) === true) return;
    // The field shows what holds, and says why.
    if (habit.choices) control.selectedIndex = habit.choices.indexOf(habit.now);
    else control.value = habit.now ?? "";
    control.setAttribute("aria-describedby", "trouble-error");
  };
  const control = habit.choices
    ? element(
        "select",
        { id, "data-focus": id, onchange: ({ target }) => turn(target, habit.choices[target.selectedIndex], value(habit.choices[target.selectedIndex])) },
        habit.choices.map((choice) => element("option", { selected: choice === habit.now }, value(choice))),
      )
    : element("input", {
        id,
        "data-focus": id,
        type: "number",
        min: "0",
        step: "any",
        value: habit.now ?? "",
        placeholder: habit.default === null ? "none" : null,
        onchange: ({ target }) => turn(target, read(target, habit.default), target.value || "what you wrote"),
      });
  return element("li", {}, element("div", {}, element("label", { for: id }, element("b", {}, habit.label)), habit.label.toLowerCase() === habit.meaning.toLowerCase() ? null : element("small", {}, habit.meaning)), control);
}

// The number in the field; `empty` where it is empty, `undefined` where it holds something else.
function read(field, empty) {
  if (field.validity.badInput) return undefined;
  return field.value === "" ? empty : Number(field.value);
}

// Calls

function copedItem(strike) {
  const about = strike.request === null ? "" : ` on ${reference(strike.request)}`;
  const offer = strike.offers !== null;
  const kind = !offer ? "" : strike.offers === 1 ? "good" : strike.offers > 1 ? "bad" : "";
  const verdict = !offer
    ? null
    : strike.offers === 1
      ? chip("good", "✓", "One offer stands: coped")
      : strike.offers > 1
        ? chip("bad", "▲", `${strike.offers} offers stand: sent more than once`)
        : chip("warn", "○", "No offer stands yet");
  const steps = strike.then.map((step) =>
    element("li", {}, `${list(step.does)}${step.request === null ? "" : ` on ${reference(step.request)}`}${step.count > 1 ? ` × ${step.count}` : ""}${step.fault ? ", and is struck again" : step.status >= 400 ? `, and gets status ${step.status}` : ""}`),
  );
  return element(
    "li",
    { class: kind },
    element("b", {}, strike.fault),
    element("p", {}, `${person(strike.who)} ${list(strike.does)}${about}; the exchange ${strike.processed ? "has done it" : "has done nothing"}.`),
    steps.length ? element("p", {}, "Then the caller:") : element("p", {}, "Nothing from the caller since."),
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
    element("span", {}, `${person(call.who)} ${list(call.does)}${about}${count}`, call.fault ? element("small", {}, `Struck: ${call.fault}`) : null),
    element("span", { class: failed ? "bad" : "" }, call.status ? `${failed ? "✕" : "✓"} ${call.status}` : "✕ no answer"),
  );
}

function entitle({ counts }) {
  document.title = `${counts.waiting ? `(${counts.waiting}) ` : ""}Freight exchange sandbox`;
}

function show() {
  for (const name of ["open", "waiting", "selected", "struck", "twice"]) put(`count-${name}`, state.counts[name].toLocaleString("en"));
  $("tile-twice").classList.toggle("broken", state.counts.twice > 0);
  entitle(state);
  showRequests();
  showOn();
  showShelf();
  fill($("coped"), state.strikes, (strike) => strike.number, copedItem);
  $("coped-empty").hidden = state.strikes.length > 0;
  fill($("calls"), state.calls, (call) => call.number, callItem);
  $("calls-empty").hidden = state.calls.length > 0;
}

// The form

const form = $("publish");
// By a method: `elements.length` is how many there are, and not the length of the cargo.
const input = (name) => form.elements.namedItem(name);

const NUMBERS = ["quantity", "weight", "length", "width", "height"];

// A number field takes `.5` and `1e3` too, which are no figures for the exchange. Other figures go as they were written.
const plain = (text) => (/^\d+(\.\d+)?$/.test(text) ? text : Number(text));

function summed() {
  const [quantity, weight, length, width, height] = NUMBERS.map((name) => Number(input(name).value));
  const figure = (amount, digits) => amount.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const parts = [
    length * width * height * quantity > 0 ? `Volume ${figure(length * width * height * quantity, 2)} m³` : "",
    weight * quantity > 0 ? `gross weight ${figure(weight * quantity, 0)} kg` : "",
  ].filter(Boolean);
  put("sum", parts.length ? parts.join(" · ") : "Volume and weight appear here.");
}

function complain(field) {
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

const written = () => [...new FormData(form)];

const publish = once(async () => {
  const sent = written();
  const values = Object.fromEntries(sent.filter(([, text]) => text !== ""));
  for (const name of NUMBERS) values[name] = plain(values[name]);
  values.hazardous = input("hazardous").checked ? 1 : 0;
  values.arrival = `${values.arrival} 00:00:00`;
  const words = `You have published ${values.commodityname}, from ${values.origin} to ${values.destination}.`;
  const done = await act("requests", values, "publish-error", { words, counts: "requests" });
  complain(done && done !== true ? done.field : null);
  // What was written meanwhile is the next request.
  if (done !== true || JSON.stringify(written()) !== JSON.stringify(sent)) return;
  form.reset();
  summed();
  input("commodityname").focus();
}, $("publish-button"));

function example() {
  const values = offered.samples[sample++ % offered.samples.length];
  for (const [name, content] of Object.entries(values)) {
    if (name === "hazardous") input(name).checked = content === 1;
    else input(name).value = name === "arrival" ? content.slice(0, 10) : content;
  }
  complain(null);
  put("publish-error", "");
  summed();
  say(`The form is filled in with an example: ${values.commodityname}, from ${values.origin} to ${values.destination}.`);
}

// The rest of the page

function theme(choice) {
  const dark = choice ? choice === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}

function remembered(choice) {
  try {
    if (choice === undefined) return localStorage.getItem("theme") ?? "";
    localStorage.setItem("theme", choice);
  } catch {
    // A browser that keeps nothing shows the page all the same.
  }
  return choice ?? "";
}

function connection() {
  const forwarder = offered.accounts.find((account) => account.email === offered.forwarder);
  $("paste").textContent = `export FREIGHT_EXCHANGE_URL=${offered.url} FREIGHT_EXCHANGE_EMAIL=${forwarder.email} FREIGHT_EXCHANGE_PASSWORD=${forwarder.password}`;
  $("accounts").replaceChildren(
    ...offered.accounts.map((account) => element("tr", {}, [account.name, account.email, account.password, account.role].map((text) => element("td", {}, text)))),
  );
}

async function begin() {
  $("theme").value = remembered();
  theme($("theme").value);
  $("theme").addEventListener("change", () => theme(remembered($("theme").value)));
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
  form.addEventListener("input", summed);
  $("example").addEventListener("click", example);
  const sift = () => state && sayLater(`${plural(showRequests(), "request")} shown.`);
  $("filter").addEventListener("change", sift);
  $("find").addEventListener("input", sift);
  const search = () => state && sayLater(`${showShelf()} shown.`);
  $("shelf-kind").addEventListener("change", search);
  $("search").addEventListener("input", search);
  while (offered === null) {
    try {
      offered = await (await fetch("/board/catalogue", { signal: AbortSignal.timeout(10_000) })).json();
    } catch {
      told("lost", "Not connected: trying again");
      await pause(1000);
    }
  }
  connection();
  const places = new Set(offered.samples.flatMap((each) => [each.origin, each.destination]));
  $("places").append(...[...places].sort().map((place) => element("option", { value: place })));
  $("c-operation").append(
    element("option", { value: "" }, "as suggested"),
    element("option", { value: "any" }, "any call"),
    ...offered.operations.map((operation) => element("option", { value: operation.key }, operation.label)),
  );
  setInterval(() => {
    for (const moment of document.querySelectorAll("[data-since]")) {
      const words = ago(Number(moment.dataset.since));
      if (moment.textContent !== words) moment.textContent = words;
    }
  }, 5000);
  await follow();
}

begin();
