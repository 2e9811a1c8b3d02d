// The map: fills the table of docs/map.md and filters it.
document.addEventListener("DOMContentLoaded", async () => {
  const table = document.querySelector("#map tbody")
  if (!table) return
  const field = id => document.getElementById(`map-${id}`)
  const most = 150
  const rows = await (await fetch("assets/map.json")).json()
  const texts = rows.map(row => row.join(" ").toLowerCase())
  const cell = (text, link) => {
    const td = document.createElement("td")
    if (!text) return td
    const code = document.createElement("code")
    text.split(/(?<=[._,])/).forEach(part => code.append(part, document.createElement("wbr"))) // lines end behind dots
    td.append(code)
    if (!link) return td
    const a = document.createElement("a")
    a.href = link
    a.append(code)
    td.append(a)
    return td
  }
  const plain = (text, link) => {
    const td = cell(text, link)
    const code = td.querySelector("code")
    if (code) code.replaceWith(text)
    return td
  }
  const show = all => {
    const words = field("text").value.toLowerCase().split(/\s+/)
    const found = rows.filter((row, i) => words.every(word => texts[i].includes(word)) &&
      (!field("known").checked || row[4] || row[5]) && (!field("differs").checked || row[3]))
    table.replaceChildren(...found.slice(0, all ? undefined : most).map(([old, later, page, differs, jax, torch, note]) => {
      const tr = document.createElement("tr")
      tr.append(cell(old, page), later && later === old ? plain("same") : cell(later, old ? "" : page), plain(differs, differs && "differences.html"),
        cell(jax), cell(torch), plain(note))
      return tr
    }))
    field("count").textContent = `${found.length} names`
    field("more").hidden = all || found.length <= most
  }
  for (const id of ["text", "known", "differs"]) field(id).addEventListener("input", () => show(false))
  field("more").addEventListener("click", () => show(true))
  field("text").value = new URLSearchParams(location.search).get("find") || ""
  show(false)
})
