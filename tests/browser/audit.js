() => {
  const faults = [];
  const shown = (element) => element.checkVisibility({ visibilityProperty: true }) && !element.closest(".hidden");
  const described = (element) => element.outerHTML.slice(0, 120);

  // Names, references, structure
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) !== at))) faults.push(`the id ${id} twice`);
  for (const attribute of ["aria-labelledby", "aria-describedby", "aria-controls", "for"])
    for (const element of document.querySelectorAll(`[${attribute}]`))
      for (const id of element.getAttribute(attribute).split(" "))
        if (!document.getElementById(id)) faults.push(`${attribute}=${id} points nowhere`);
  for (const control of document.querySelectorAll("input, select, button, a")) {
    const name = control.getAttribute("aria-label") ?? [...(control.labels ?? [])].map((label) => label.textContent).join(" ") + control.textContent;
    if (!name.trim()) faults.push(`no name: ${described(control)}`);
  }
  for (const image of document.querySelectorAll("img")) if (!image.hasAttribute("alt")) faults.push(`no alt: ${described(image)}`);
  for (const table of document.querySelectorAll("table")) {
    if (!table.caption) faults.push(`no caption: ${described(table)}`);
    if (!table.querySelector("th[scope]")) faults.push(`no heads: ${described(table)}`);
  }
  for (const set of document.querySelectorAll("fieldset")) if (!set.querySelector("legend")) faults.push(`no legend: ${described(set)}`);
  const levels = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].map((heading) => Number(heading.tagName[1]));
  if (levels.filter((level) => level === 1).length !== 1) faults.push("not one h1");
  levels.forEach((level, at) => { if (at && level > levels[at - 1] + 1) faults.push(`h${levels[at - 1]} then h${level}`); });
  if (!document.documentElement.lang || !document.title || !document.querySelector("main")) faults.push("no lang, title or main");
  for (const element of document.querySelectorAll("[tabindex]")) if (element.tabIndex > 0) faults.push(`order of its own: ${described(element)}`);

  // Sizes of what is clicked
  for (const control of document.querySelectorAll("button, select, input:not([type=checkbox], [type=radio])")) {
    const box = control.getBoundingClientRect();
    if (shown(control) && (box.width < 24 || box.height < 24)) faults.push(`small: ${described(control)}`);
  }

  // Contrast
  const channels = (colour) => {
    const [red, green, blue, alpha = 1] = colour.match(/[\d.]+/g).map(Number);
    return { light: [red, green, blue], alpha };
  };
  const luminance = (light) => {
    const [r, g, b] = light.map((value) => value / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const { light, alpha } = channels(getComputedStyle(at).backgroundColor);
      if (alpha === 1) return light;
      if (alpha > 0) faults.push(`a ground to be seen through: ${described(at)}`);
    }
    return [255, 255, 255];
  };
  const contrast = (one, other) => {
    const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05);
  };
  let measured = 0;
  for (const element of document.querySelectorAll("body *")) {
    const words = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
    if (!shown(element) || element.closest("datalist, option, noscript")) continue;
    const style = getComputedStyle(element);
    if (words || element.matches("input, select")) {
      measured += 1;
      const found = contrast(channels(style.color).light, ground(element));
      if (found < 4.5) faults.push(`contrast ${found.toFixed(2)}: ${described(element)}`);
    }
    if (element.matches("input[type=search], input[placeholder]")) {
      const found = contrast(channels(getComputedStyle(element, "::placeholder").color).light, ground(element));
      if (found < 4.5) faults.push(`placeholder ${found.toFixed(2)}: ${described(element)}`);
    }
    if (element.matches("input:not([type=radio]), select, button:not(.primary)")) {
      const found = contrast(channels(style.borderTopColor).light, ground(element.parentElement));
      if (found < 3) faults.push(`border ${found.toFixed(2)}: ${described(element)}`);
    }
  }
  return { faults, measured };
}
