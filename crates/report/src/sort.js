for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const h of heads) h.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.v;
      const text = (row) => row.cells[column].textContent;
      const missing = (row) => head.classList.contains("num") && key(row) === undefined;
      const compare = (a, b) =>
        key(a) !== undefined && key(b) !== undefined
          ? key(a) - key(b)
          : text(a).localeCompare(text(b), undefined, { numeric: true });
      const body = table.tBodies[0];
      [...body.rows]
        .sort((a, b) => missing(a) - missing(b) || (down ? compare(b, a) : compare(a, b)))
        .forEach((row) => body.append(row));
    });
  });
}
