// Finds sections that have every word, titles before texts. The sections come with the site: nothing is fetched.
(() => {
  const box = document.getElementById("search");
  const list = document.getElementById("found");
  const top = box.dataset.top;
  const sections = window.SECTIONS.map((one) => ({
    ...one, name: `${one.page} ${one.title}`.toLowerCase(), body: one.text.toLowerCase(),
  }));

  function worth(section, words) {
    let sum = 0;
    for (const word of words) {
      const inName = section.name.indexOf(word), inBody = section.body.indexOf(word);
      if (inName < 0 && inBody < 0) return 0;
      sum += (inName >= 0 ? 20 : 0) + (inBody >= 0 ? 3 + Math.min(5, section.body.split(word).length - 1) : 0);
    }
    return section.title.toLowerCase() === words.join(" ") ? sum + 50 : sum;
  }

  function piece(section, word) {
    const at = Math.max(0, section.body.indexOf(word) - 30);
    return (at ? "… " : "") + section.text.slice(at, at + 110) + " …";
  }

  function row(section, words, selected) {
    const link = document.createElement("a");
    link.href = top + section.url;
    link.setAttribute("role", "option");
    link.setAttribute("aria-selected", String(selected));
    link.append(section.title === section.page ? section.page : `${section.page}: ${section.title}`);
    const small = document.createElement("small");
    small.textContent = piece(section, words[0]);
    link.append(small);
    return link;
  }

  function search() {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = words.length
      ? sections.map((section) => [worth(section, words), section]).filter(([sum]) => sum).sort((a, b) => b[0] - a[0])
      : [];
    list.replaceChildren(...found.slice(0, 12).map(([, section], at) => row(section, words, at === 0)));
    if (words.length && !found.length) list.textContent = "Nothing found.";
    list.hidden = !words.length;
  }

  function move(step) {
    const rows = [...list.querySelectorAll("a")];
    const at = rows.findIndex((one) => one.getAttribute("aria-selected") === "true");
    const next = rows[(at + step + rows.length) % rows.length];
    rows.forEach((one) => one.setAttribute("aria-selected", String(one === next)));
    next?.scrollIntoView({ block: "nearest" });
  }

  box.addEventListener("input", search);
  box.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      move(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter") {
      list.querySelector('a[aria-selected="true"]')?.click();
    } else if (event.key === "Escape") {
      box.value = "";
      search();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== box) {
      event.preventDefault();
      box.focus();
    }
  });
})();
