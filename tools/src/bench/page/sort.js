// Sorts by the column whose head is clicked: by the number that a cell carries, or by its text; empty cells come last.
const body = document.querySelector("tbody"), heads = [...document.querySelectorAll("th")];
heads.forEach((head, column) => head.querySelector("button").onclick = () => {
  const falls = head.ariaSort === "ascending";
  const key = row => {
    const cell = row.cells[column], value = cell.dataset.value;
    return value === undefined ? cell.textContent : Number(value);
  };
  const compare = (a, b) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    const order = a < b ? -1 : a > b ? 1 : 0;
    return falls ? -order : order;
  };
  const rows = [...body.rows].map(row => [key(row), row]);
  rows.sort(([a], [b]) => compare(a, b));
  heads.forEach(other => other.ariaSort = null);
  head.ariaSort = falls ? "descending" : "ascending";
  body.append(...rows.map(([, row]) => row));
});
