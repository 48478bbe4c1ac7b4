// Board of the sandbox. Text is only ever inserted as text nodes, so it cannot become markup.

const $ = (id) => document.getElementById(id);
let [state, catalogue, sample] = [null, null, 0];

// Words
const OPERATIONS = {
  login: ["Logging in", "logs in"], search: ["Listing requests", "lists requests"], publish: ["Publishing a request", "publishes a request"],
  submit: ["Submitting an offer", "submits an offer"], bids: ["Listing own offers", "lists its own offers"], routes: ["Routes", "works with routes"],
  offers: ["Reading offers", "reads the offers on its requests"], approve: ["Approving or declining", "approves or declines an offer"],
  lists: ["Carriers and currencies", "reads carriers or currencies"],
};
// Suggested faults: label, explanation, operation, number of calls.
const FAULTS = {
  reset_after_processing: ["The answer to an offer gets lost", "The exchange takes it, and the bot gets no answer. A careless bot offers twice.", "submit", 1],
  reset_after_send: ["An offer gets lost on its way", "The exchange never gets it. A careless bot counts it as made.", "submit", 1],
  stall: ["An offer is never answered", "The exchange takes it, and the connection stays silent.", "submit", 1],
  bad_request_after_commit: ["An offer is taken, but answered by an error", "Status 500, and sending it again is refused.", "submit", 1],
  unavailable_forever: ["The exchange is down", "Status 503 for every call, until you switch it off.", "", null],
  tokens_revoked: ["All logins end", "Every token becomes invalid at once.", "", 1],
  throttled_seconds: ["Too many requests", "Status 429 for three calls: come back in a second.", "", 3],
  slow: ["Slow answers", "The next ten answers come a second late.", "", 10],
  truncated_length: ["A list breaks off in the middle", "Half of an answer, then the connection ends.", "search", 1],
  poison_record: ["One broken record in a list", "The others are good and must not be lost.", "search", 1],
  maintenance_200: ["A maintenance note instead of a list", "A bot that takes it for an empty list misses requests.", "search", 1],
  html_200: ["A web page instead of data", "What a proxy or a login wall sends, with status 200.", "", 1],
};
const QUIRKS = {
  latency: "Seconds that each answer takes", late_visibility: "Seconds until a change shows in lists", rows_clamp: "Maximum records in a page",
  order: "Order of the lists", token_lifetime: "Seconds that a login lasts", poison: "One broken record in every list", number_form: "How numbers are written",
  date_form: "How dates are written", collection_shape: "How lists are written", offset_ignored: "Every page is the first one",
  second_offer: "A second offer by the same forwarder", decline_outcome: "What becomes of a declined offer",
};
const COUNTS = { open: "Open requests", waiting: "Offers waiting", selected: "Approved", struck: "Calls struck", duplicates: "Offers sent twice" };
const SILENT = "The exchange does not answer. This page keeps trying.";
const UNKNOWN = "The exchange did not answer within 10 seconds. Check whether the action took effect before you repeat it.";

const plural = (count, one) => `${count.toLocaleString("en")} ${one}${count === 1 ? "" : "s"}`;
const capitalized = (words) => (words.charAt(0).toUpperCase() + words.slice(1)).replaceAll("_", " ");
const figure = (amount, digits) => amount.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const person = (who) => (who ? who.split("@")[0] : "somebody");
const does = (operation) => OPERATIONS[operation]?.[1] ?? `calls ${operation}`;
const faultLabel = (name) => catalogue.faults.find((fault) => fault.name === name)?.label ?? name;
const about = (index) => (index === null ? "" : ` on ${state.requests.find((request) => request.index === index)?.refid ?? `request ${index}`}`);
const value = (words) => (words === null ? "none" : words === true ? "yes" : words === false ? "no" : words === "" ? "no header" : String(words).replaceAll("_", " "));

// A time of day, since ages would change all the time.
function moment(seconds, options = { hour: "2-digit", minute: "2-digit" }) {
  const when = new Date(seconds * 1000);
  const day = when.toDateString() === new Date().toDateString() ? "" : `${when.toLocaleDateString("en-GB", { day: "numeric", month: "short" })}, `;
  return element("time", { datetime: when.toISOString(), title: when.toLocaleString("en-GB") }, day + when.toLocaleTimeString("en-GB", options));
}

// Elements
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, content] of Object.entries(attributes)) {
    if (content === null || content === undefined || content === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), content);
    else made.setAttribute(name, content === true ? "" : content);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

// Text of a publisher, whose marks of direction must not turn what stands beside it.
const isolated = (text) => element("bdi", {}, text);

// `focus` finds the button again when its surroundings are made anew.
function button(focus, words, name, onclick, kind = null) {
  return element("button", { type: "button", class: kind, "data-focus": focus, "aria-label": name, onclick: once(onclick) }, words);
}

const chip = (kind, sign, words) => element("span", { class: `chip ${kind}` }, element("span", { "aria-hidden": "true" }, sign), words);
const put = (id, text) => { if ($(id).textContent !== text) $(id).textContent = text; };

// Updates a list. Unchanged entries keep their elements; the focus stays, or moves to what remains of its entry.
function fill(list, entries, key, build) {
  const before = new Map([...list.children].map((child) => [child.dataset.key, child]));
  const children = entries.map((entry) => {
    const [name, signature] = [String(key(entry)), JSON.stringify(entry)];
    if (before.get(name)?.signature === signature) return before.get(name);
    const made = build(entry);
    made.dataset.key = name;
    return Object.assign(made, { signature });
  });
  if (children.length === before.size && children.every((child, at) => child === list.children[at])) return;
  const focused = document.activeElement;
  const name = [...list.children].find((child) => child.contains(focused))?.dataset.key;
  list.replaceChildren(...children);
  if (name === undefined) return;
  const entry = children.find((child) => child.dataset.key === name);
  const same = focused.isConnected ? focused : entry?.querySelector(`[data-focus="${CSS.escape(focused.dataset.focus ?? "")}"]`);
  // Changes by others must not scroll the page.
  (same ?? entry?.querySelector("h3") ?? list.closest("section").querySelector("h2")).focus({ preventScroll: true });
}

// Announces own actions and a summary of what else changed to screen readers, at most once a second.
const SUMS = { requests: "new request", offers: "new offer", selected: "approved request", withdrawn: "withdrawn request", struck: "struck call" };
const sentences = [];
let [told, timer] = [null, null];
function say(sentence) {
  if (sentence) sentences.push(sentence);
  timer ??= setTimeout(() => {
    timer = null;
    const grown = Object.keys(SUMS).filter((what) => state.counts[what] > (told ?? state.counts)[what]);
    if (grown.length) sentences.push(`${grown.map((what) => plural(state.counts[what] - told[what], SUMS[what])).join(", ")}.`);
    told = state.counts;
    if (sentences.length) $("news").textContent = sentences.splice(0).join(" ");
  }, 1000);
}

// Requests to the exchange
// Ignores presses until the answer comes. The attribute `disabled` would lose the focus.
function once(doing) {
  let isBusy = false;
  return async (event) => {
    event.preventDefault();
    if (isBusy) return;
    isBusy = true;
    await doing().finally(() => { isBusy = false; });
  };
}

// Runs an action; returns whether it succeeded, and shows the reason if not.
async function act(what, values, complaint = "problem", words = "") {
  put(complaint, "");
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, signal: AbortSignal.timeout(10_000) };
  try {
    const answer = await fetch(`/board/${what}`, { ...options, body: JSON.stringify(values) });
    const body = await answer.json();
    if (answer.ok && words) say(words);
    if (!answer.ok) put(complaint, body.message);
    return answer.ok;
  } catch (error) {
    put(complaint, error.name === "TimeoutError" ? UNKNOWN : SILENT);
    return false;
  }
}

const pause = (milliseconds) => new Promise((resume) => setTimeout(resume, milliseconds));

// Reads from the exchange until it answers. It waits up to 20 seconds for a change.
async function read(path) {
  for (;;) {
    try {
      const answer = await fetch(path(), { signal: AbortSignal.timeout(30_000) });
      if (answer.ok) return await answer.json();
    } catch {
      // Not connected, or too slow.
    }
    $("link").dataset.state = "lost";
    put("link-words", "Not connected");
    put("problem", SILENT);
    await pause(1000);
  }
}

async function follow() {
  for (;;) {
    const next = await read(() => `/board/state?after=${state?.revision ?? 0}`);
    if ($("link").dataset.state === "lost") say("The exchange is back.");
    for (const id of ["problem", "form-error"]) if ($(id).textContent === SILENT) put(id, "");
    $("link").dataset.state = "live";
    put("link-words", "Live");
    state = next;
    show();
    // Collects changes that come in quick succession. A hidden page asks rarely: a browser has few connections.
    await pause(document.hidden ? 2000 : 150);
  }
}

// Requests and offers
const FILTERS = { all: () => true, open: (request) => request.state === "open", offers: (request) => request.offers.length > 0, selected: (request) => request.state === "selected" };
const sums = (cargo) => [figure(cargo.length * cargo.width * cargo.height * cargo.quantity, 2), figure(cargo.weight * cargo.quantity, 0)];

function showRequests() {
  const words = $("find").value.trim().toLowerCase();
  const fits = ({ refid, cargo }) => [refid, cargo.commodityname, cargo.origin, cargo.destination].join(" ").toLowerCase().includes(words);
  const shown = state.requests.filter((request) => FILTERS[$("filter").value](request) && fits(request));
  fill($("requests"), shown, (request) => request.index, requestItem);
  $("nothing").hidden = shown.length > 0;
  put("nothing", state.requests.length ? "No request matches." : "No request yet. Publish one.");
  put("hidden-count", state.hidden ? `${plural(state.hidden, "more request")} not shown. Open requests come first.` : "");
}

function statusChip(request, waiting) {
  if (request.state === "selected") return chip("good", "✓", "Approved");
  if (request.state === "withdrawn") return chip("plain", "✕", "Withdrawn");
  return waiting ? chip("warn", "●", `${plural(waiting, "offer")} waiting`) : chip("", "○", request.offers.length ? "No offer waiting" : "Open, no offer yet");
}

function requestItem(request) {
  const { index, refid, cargo, offers } = request;
  const isOpen = request.state === "open";
  const waiting = isOpen ? offers.filter((offer) => offer.status === "pending").length : 0;
  const [volume, weight] = sums(cargo);
  const facts = [cargo.requesttype, `${cargo.quantity.toLocaleString("en")} ${cargo.packaging}${cargo.quantity === 1 ? "" : "s"}`, `${volume} m³`, `${weight} kg`, cargo.incoterm, `by ${cargo.arrival.slice(0, 10)}`];
  const title = `request-${index}`;
  const buttons = element("span", { class: "buttons" },
    button(`rival-${index}`, "Let the rival offer", `Let the rival make an offer on ${refid}`, () => act("offer_as_rival", { request: index })),
    button(`change-${index}`, "Change", `Change ${refid}`, async () => openForm(request)),
    button(`withdraw-${index}`, "Withdraw", `Withdraw ${refid}`, () => act("withdraw", { request: index })));
  return element("li", {}, element("article", { class: waiting ? "offered" : request.state, "aria-labelledby": title },
    element("div", {}, element("h3", { id: title, tabindex: "-1" }, isolated(cargo.origin), " → ", isolated(cargo.destination)), element("small", {}, refid), cargo.hazardous ? chip("bad", "▲", "Dangerous goods") : null, statusChip(request, waiting), moment(request.created)),
    element("p", {}, element("b", {}, isolated(cargo.commodityname)), ` · ${facts.join(" · ")}`),
    cargo.notes ? element("p", {}, cargo.notes) : null,
    offers.length ? element("table", {},
      element("caption", { class: "hidden" }, `Offers on ${refid}`),
      element("thead", { class: "hidden" }, element("tr", {}, ["Amount", "Detail", "Answer"].map((word) => element("th", { scope: "col" }, word)))),
      element("tbody", {}, offers.map((offer) => offerRow(request, offer)))) : null,
    request.contacts.length ? element("ul", {}, request.contacts.map((who, at) => element("li", {}, element("b", {}, at ? "Shipper: " : "Forwarder: "), [who.name, who.email, who.company, who.phone, who.city].filter(Boolean).join(" · ")))) : null,
    isOpen ? buttons : null));
}

const STATUS = { pending: ["warn", "●", "Waiting"], selected: ["good", "✓", "Approved"], declined: ["plain", "✕", "Declined"], rejected: ["plain", "✕", "Rejected"] };

function offerRow(request, offer) {
  const sum = `${offer.currency} ${figure(offer.amount, 2)}`;
  const detail = [...Object.entries(offer.rates).map(([fee, amount]) => `${fee} ${figure(amount, 2)}`), offer.terms].filter(Boolean).join(" · ");
  const [isPending, isOpen] = [offer.status === "pending", request.state === "open"];
  const answer = (name, approved, kind) => button(`${name}-${offer.index}`, name, `${name} the offer of ${sum} on ${request.refid}`, () => act("respond", { offer: offer.index, approved }), kind);
  const [kind, sign, word] = isPending && !isOpen ? ["plain", "–", "Not taken"] : STATUS[offer.status] ?? ["plain", "?", offer.status];
  return element("tr", {},
    element("td", {}, sum),
    element("td", {}, detail || "No details", offer.is_own ? chip("", "★", "Your bot") : null, offer.is_lowest ? chip("good", "↓", "Lowest") : null),
    element("td", {}, isPending && isOpen ? [answer("Approve", 1, "primary"), answer("Decline", 0)] : chip(kind, sign, word)));
}

// Faults and quirks
function showActive() {
  const often = (times) => (times === null ? "until switched off" : times === 1 ? "the next call" : `the next ${times} calls`);
  const rows = [
    ...state.armed.map(({ id, fault, operation, times }) => ({ key: `fault-${id}`, words: faultLabel(fault), more: `${OPERATIONS[operation]?.[0] ?? "Any call"}, ${often(times)}`, off: ["disarm", { id }] })),
    ...catalogue.quirks.filter(({ name }) => name in state.quirks).map((quirk) => ({ key: `quirk-${quirk.name}`, words: `${quirk.label}: ${value(state.quirks[quirk.name])}`, more: `default: ${value(quirk.default)}`, off: ["set_quirk", { name: quirk.name, value: quirk.default }] })),
  ];
  fill($("active"), rows.length ? rows : [{ key: "none" }], (row) => row.key, (row) => row.words
    ? element("div", {}, element("span", {}, row.words, element("small", {}, row.more)), button(row.key, "Switch off", `Switch off: ${row.words}`, () => act(...row.off, "problem", `Switched off: ${row.words}.`)))
    : element("p", {}, "Nothing is switched on: the exchange behaves as documented."));
}

function showCatalogue() {
  const words = $("search").value.trim().toLowerCase();
  const [faults, quirks] = [catalogue.faults, catalogue.quirks].map((all) => all.filter((each) => (words ? `${each.name} ${capitalized(each.name)} ${each.label} ${each.meaning}`.toLowerCase().includes(words) : each.isSuggested)));
  fill($("faults"), faults, (fault) => fault.name, faultItem);
  fill($("quirks"), quirks.map((quirk) => ({ ...quirk, now: quirk.name in state.quirks ? state.quirks[quirk.name] : quirk.default })), (quirk) => quirk.name, quirkItem);
  put("search-count", `${faults.length} of ${plural(catalogue.faults.length, "fault")}, ${quirks.length} of ${plural(catalogue.quirks.length, "quirk")}`);
}

function faultItem(fault) {
  const on = () => {
    const [operation, times, phase] = ["c-operation", "c-times", "c-phase"].map((id) => $(id).value);
    const values = { name: fault.name, operation: operation === "" ? fault.operation : operation === "any" ? "" : operation };
    const often = times === "" ? fault.times : times === "always" ? null : Number(times);
    if (often !== null) values.times = often;
    if (phase !== "") values.processed = phase === "after";
    return act("arm", values, "problem", `Switched on: ${fault.label}.`);
  };
  return element("li", {}, element("div", {}, element("b", {}, fault.label), element("small", {}, fault.more)), button(`arm-${fault.name}`, "Switch on", `Switch on: ${fault.label}`, on));
}

function quirkItem(quirk) {
  const id = `quirk-${quirk.name}`;
  const item = element("li", {}, element("div", {}, element("label", { for: id }, element("b", {}, quirk.label)), element("small", {}, quirk.meaning)));
  const set = async (now) => {
    if (now === undefined) put("problem", `${quirk.label}: give a number.`);
    else if (await act("set_quirk", { name: quirk.name, value: now }, "problem", `${quirk.label}: ${value(now)}.`)) return;
    // Made anew, the field shows the value in force.
    item.signature = null;
    showCatalogue();
  };
  const read = ({ target }) => set(target.validity.badInput ? undefined : target.value === "" ? quirk.default : Number(target.value));
  item.append(quirk.choices
    ? element("select", { id, "data-focus": id, onchange: ({ target }) => set(quirk.choices[target.selectedIndex]) }, quirk.choices.map((choice) => element("option", { selected: choice === quirk.now }, value(choice))))
    : element("input", { id, "data-focus": id, type: "number", min: "0", step: "any", value: quirk.now, placeholder: quirk.default === null ? "none" : null, onchange: read }));
  return item;
}

function strikeItem(strike) {
  const { offers } = strike;
  const times = strike.count > 1 ? ` × ${strike.count}, the last time` : "";
  const then = strike.then.length ? `Then it ${new Intl.ListFormat("en").format(strike.then.map(does))}.` : "It has done nothing since.";
  const verdict = offers === 1 ? chip("good", "✓", "One offer stands: recovered") : offers > 1 ? chip("bad", "▲", `${offers} offers stand: sent more than once`) : chip("warn", "○", "No offer stands yet");
  return element("li", {},
    element("b", {}, faultLabel(strike.fault) + times),
    element("p", {}, `${person(strike.caller)} ${does(strike.operation)}${about(strike.request)}; the exchange ${strike.processed ? "carried it out" : "did nothing"}. ${then}`),
    offers === null ? null : verdict);
}

function callItem(call) {
  const failed = call.fault !== null || call.status >= 400;
  return element("li", {},
    moment(call.time, {}),
    element("span", {}, `${person(call.caller)} ${does(call.operation)}${about(call.request)}${call.count > 1 ? ` × ${call.count}` : ""}`, call.fault ? element("small", {}, `Fault: ${faultLabel(call.fault)}`) : null),
    element("span", { class: failed ? "bad" : null }, call.status ? `${failed ? "✕" : "✓"} ${call.status}` : "✕ no answer"));
}

function show() {
  for (const name of Object.keys(COUNTS)) put(`count-${name}`, state.counts[name].toLocaleString("en"));
  $("count-duplicates").parentElement.classList.toggle("broken", state.counts.duplicates > 0);
  document.title = `${state.counts.waiting ? `(${state.counts.waiting}) ` : ""}Freight exchange sandbox`;
  showRequests();
  showActive();
  showCatalogue();
  fill($("strikes"), state.strikes, (strike) => `${strike.fault} ${strike.caller} ${strike.request}`, strikeItem);
  fill($("calls"), state.calls, (call) => call.number, callItem);
  for (const name of ["strikes", "calls"]) $(`${name}-empty`).hidden = state[name].length > 0;
  say("");
}

// The form: it publishes a request, or changes one
const form = $("form");
const field = (name) => form.elements.namedItem(name);
const NUMBERS = ["quantity", "weight", "length", "width", "height"];
let changed = null;

function setFields(cargo) {
  for (const [name, content] of Object.entries(cargo)) {
    if (name === "hazardous") field(name).checked = content === 1;
    else if (field(name)) field(name).value = name === "arrival" ? content.slice(0, 10) : content ?? "";
  }
  showSum();
}

function showSum() {
  const [volume, weight] = sums(Object.fromEntries(NUMBERS.map((name) => [name, Number(field(name).value)])));
  put("sum", `Volume ${volume} m³ · gross weight ${weight} kg`);
}

function openForm(request) {
  // A half-typed publication stays; a change starts from the request.
  if (request || changed) form.reset();
  changed = request;
  put("cargo-title", request ? `Change ${request.refid}` : "Publish a request");
  put("send", request ? "Change" : "Publish");
  put("form-error", "");
  $("example").hidden = request !== null;
  setFields(request?.cargo ?? {});
  $("cargo").showModal();
}

async function send() {
  const values = { ...Object.fromEntries(new FormData(form)), hazardous: field("hazardous").checked ? 1 : 0 };
  for (const name of NUMBERS) values[name] = Number(values[name]);
  values.arrival += " 00:00:00";
  const words = changed ? `You have changed ${changed.refid}.` : `You have published ${values.commodityname}.`;
  if (!(await act(changed ? "change" : "requests", changed ? { ...values, request: changed.index } : values, "form-error", words))) return;
  form.reset();
  $("cargo").close();
}

async function start() {
  $("counts").append(...Object.entries(COUNTS).map(([name, words]) => element("div", {}, element("dt", {}, words), element("dd", { id: `count-${name}` }, "0"))));
  $("publish").addEventListener("click", () => openForm(null));
  for (const each of document.querySelectorAll("dialog .close")) each.addEventListener("click", () => each.closest("dialog").close());
  // The button that opened it may be gone.
  $("cargo").addEventListener("close", () => document.activeElement === document.body && $("requests-title").focus());
  form.addEventListener("submit", once(send));
  form.addEventListener("input", showSum);
  $("example").addEventListener("click", () => setFields(catalogue.samples[sample++ % catalogue.samples.length]));
  $("connect-button").addEventListener("click", () => $("connect").showModal());
  $("copy").addEventListener("click", () => {
    getSelection().selectAllChildren($("paste"));
    navigator.clipboard.writeText($("paste").textContent).then(() => put("copy", "Copied"), () => put("copy", "Press Ctrl+C"));
  });
  for (const id of ["find", "filter", "search"]) $(id).addEventListener("input", () => state && show());
  catalogue = await read(() => "/board/catalogue");
  for (const fault of catalogue.faults) {
    const [label, more, operation, times] = FAULTS[fault.name] ?? [capitalized(fault.name), capitalized(fault.meaning), fault.operation, fault.times];
    Object.assign(fault, { label, more, operation, times, isSuggested: fault.name in FAULTS });
  }
  for (const quirk of catalogue.quirks) Object.assign(quirk, { label: QUIRKS[quirk.name] ?? capitalized(quirk.name), isSuggested: quirk.name in QUIRKS });
  // The suggested ones come first, in their order.
  const rank = (suggested, { name }) => [...Object.keys(suggested), name].indexOf(name);
  catalogue.faults.sort((one, other) => rank(FAULTS, one) - rank(FAULTS, other));
  catalogue.quirks.sort((one, other) => rank(QUIRKS, one) - rank(QUIRKS, other));
  const forwarder = catalogue.accounts.find((account) => account.role === "forwarder");
  put("paste", `export FREIGHT_EXCHANGE_URL=${catalogue.url} FREIGHT_EXCHANGE_EMAIL=${forwarder.email} FREIGHT_EXCHANGE_PASSWORD=${forwarder.password}`);
  $("accounts").replaceChildren(...catalogue.accounts.map((account) => element("tr", {}, [account.name, account.email, account.password, account.role].map((text) => element("td", {}, text)))));
  $("c-operation").append(...Object.entries(OPERATIONS).map(([key, [label]]) => element("option", { value: key }, label)));
  await follow();
}

start();
