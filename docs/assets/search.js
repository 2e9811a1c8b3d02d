// The search: ranks pages in place of the theme's worker, and speaks its protocol.
//
// Messages: {type: 0, data: {docs}} makes the index and is answered by {type: 1}; {type: 2, data: query} is answered by
// {type: 3, data: {items}}, each item a list of sections of one page. Names come first (exact, without case, with one
// letter wrong), then words: without stop words, with synonyms, by their rarity.
"use strict"

const STOP = new Set(`a an and are as at be by can could do does for from get got has have how i if in into is it its
  make me my need of on or our please should so that the their them then there these they this to use used using want was
  way we what when which who why will with would you your without about`.split(/\s+/))
// words that mean the same here: each finds the others, at a lower weight
const SAME = [
  "deploy deployment serve serving production inference endpoint", "install installation setup pip",
  "gpu gpus cuda nvidia device devices", "tpu tpus accelerator accelerators", "lr learning rate schedule scheduler decay",
  "distributed multinode node nodes machines machine cluster", "multi multiple several", "save saving checkpoint store",
  "load loading restore resume", "fp16 float16 half amp mixed precision bfloat16 bf16",
  "int8 quantize quantized quantization 8-bit integers", "migrate migration port porting move switch leave leaving",
  "pytorch torch", "fast faster speed performance benchmark benchmarks slow figures results",
  "different difference differences differs incompatible", "gradient gradients backward autograd differentiate derivative",
  "tensor tensors array arrays ndarray", "docker container containers image", "oom memory", "error errors exception fails",
  "records record recordio rec", "custom own", "operator operators op ops kernel", "pretrained zoo weights",
  "loss losses objective criterion", "layer layers block blocks", "predict prediction inference", "train training fit",
  "iterator iterators loader dataloader data dataset pipeline", "export convert conversion", "example examples tutorial",
]
const synonyms = new Map()
for (const line of SAME) {
  const words = line.split(/\s+/)
  for (const word of words) synonyms.set(word, [...(synonyms.get(word) || []), ...words.filter(w => w !== word)])
}
// what pages are about beside their titles
const ABOUT = {
  "install.html": "setup pip docker cuda gpu tpu python version requirements", "serving.html": "deploy model production rest",
  "several-machines.html": "distributed training cluster nodes multinode horovod parameter server kubernetes slurm",
  "tutorials/devices.html": "multiple gpus multi-gpu data parallel", "tutorials/autograd.html": "compute gradients backward",
  "tutorials/trainstep.html": "fast training mesh sharding fsdp compiled step",
  "tutorials/amp-quantization.html": "mixed precision fp16 bfloat16 int8", "how/results.html": "fast speed performance benchmark",
  "leaving.html": "convert export pytorch flax tensorflow savedmodel", "from-mxnet.html": "migrate start getting started port",
  "tutorials/data.html": "record files images augmentation loader csv", "tutorials/gluon.html": "network layer train save parameters",
  "tutorials/module.html": "symbol module fit checkpoint", "api/lr_scheduler/index.html": "learning rate schedule decay warmup",
  "api/optimizer/index.html": "optimizers sgd weight decay", "api/metric/index.html": "metrics evaluate accuracy",
  "api/init/index.html": "initialize weights initialization", "map.html": "pytorch jax flax equivalent counterpart replace",
  "pretrained.html": "pretrained model zoo weights download imagenet", "how/security.html": "security secret trust pickle",
  "errors.html": "error message exception fails",
}
// pages that answer questions before those that list functions
const FAMILY = [["api/gluon/contrib", 1], ["api/gluon", 9], ["api/nd/contrib", 5], ["api/nd/", 8], ["api/optimizer", 8],
  ["api/metric", 8], ["api/io", 8], ["api/np/", 7], ["api/npx", 5], ["api/init", 7], ["api/lr_scheduler", 8],
  ["api/autograd", 8], ["api/mod/", 7], ["api/kv", 7], ["api/contrib", 3], ["api/test_utils", 0], ["api/", 4]]

const plain = html => html.replace(/<[^>]*>/g, " ").replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&quot;/g, '"')
  .replace(/&amp;/g, "&")
const escaped = text => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;")
const words = text => text.toLowerCase().match(/[a-z0-9]+(?:[_'][a-z0-9]+)*/g) || []
const squashed = name => name.toLowerCase().replace(/[^a-z0-9]/g, "")

function stem(word) {
  if (word.length < 4 || word.includes("_")) return word
  return word.replace(/(?:ies|y)$/, "i").replace(/(?<=...)(?:ing|ed|es|s|e)$/, "").replace(/([bdglmnprt])\1$/, "$1")
}

// Whether one letter added, left out, changed, or two neighbours exchanged make a word of another.
function near(a, b) {
  if (Math.abs(a.length - b.length) > 1) return false
  let i = 0
  while (i < a.length && a[i] === b[i]) i++
  if (a.length === b.length) {
    return a.slice(i + 1) === b.slice(i + 1) ||
      a[i] === b[i + 1] && a[i + 1] === b[i] && a.slice(i + 2) === b.slice(i + 2)
  }
  return a.length > b.length ? a.slice(i + 1) === b.slice(i) : a.slice(i) === b.slice(i + 1)
}

class Index {
  constructor(docs, names) {
    this.pages = new Map() // location of a page -> its sections
    this.sections = []
    this.posts = new Map() // stem -> [[section, weight]]
    this.spelled = new Map() // stem -> a word
    for (const doc of docs) this.add(doc)
    this.names = names.map(([name, page]) => ({
      name, page, last: name.slice(name.lastIndexOf(".") + 1), squashed: squashed(name.slice(name.lastIndexOf(".") + 1)),
      prior: (FAMILY.find(([start]) => page.startsWith(start)) || ["", 6])[1] - name.length / 100}))
  }

  add(doc) {
    const [path, anchor] = doc.location.split("#")
    const api = path.startsWith("api/")
    const own = api && /^api\/(?:\w+\/)+\w+\.html$/.test(path) // a page of one thing: its parts say nothing new
    const text = plain(doc.text).replace(/\s+/g, " ").trim()
    const title = plain(doc.title)
    const section = {doc, path, title, text, api, main: !anchor}
    if (!this.pages.has(path)) this.pages.set(path, {path, main: section, sections: []})
    const page = this.pages.get(path)
    if (!anchor) page.main = section
    page.sections.push(section)
    if (own && anchor) return
    const number = this.sections.push(section) - 1
    const counts = new Map()
    const count = (list, weight) => {
      for (const word of list) {
        for (const part of word.includes("_") ? [word, ...word.split("_")] : [word]) {
          const key = stem(part)
          counts.set(key, (counts.get(key) || 0) + weight)
          if (!this.spelled.has(key)) this.spelled.set(key, part)
        }
      }
    }
    count(words(title.replace(/([a-z])(?=[A-Z])/g, "$1 ")), 5)
    if (api) count(words(title), 5)
    if (section.main) count(words(path.replace(/\.html$/, "")), 3)
    if (section.main) count(words(ABOUT[path] || ""), 4)
    const body = words(api ? text.slice(0, 400) : text)
    count(body, 1)
    section.length = 0.5 + body.length / 200 // a long text has any word
    for (const [key, weight] of counts) {
      if (!this.posts.has(key)) this.posts.set(key, [])
      this.posts.get(key).push([number, weight])
    }
  }

  // Pages (with anchors) whose thing has the name: {page: score}.
  named(query) {
    const found = new Map()
    const typed = query.replace(/\(.*\)$/, "").replace(/^mxnet\./, "mx.").replace(/^mx\.symbol\./, "mx.sym.")
      .replace(/^mx\.ndarray\./, "mx.nd.").replace(/^(nd|np|npx|sym|gluon|autograd|metric|optimizer)\./, "mx.$1.")
    const spaced = /\s/.test(typed)
    const short = typed.slice(typed.lastIndexOf(".") + 1)
    const key = squashed(spaced ? typed : short)
    if (!key) return found
    for (const {name, page, last, squashed: other, prior} of this.names) {
      let score = 0
      if (name === typed) score = 1000
      else if (!spaced && last === short) score = typed.includes(".") ? 700 : 900
      else if (other === key) score = spaced ? 600 : 800
      else if (spaced) score = other.length > 5 && 2 * other.length >= key.length && key.startsWith(other) ? 300 : 0
      else if (key.length > 3 && near(key, other)) score = key.length > 4 ? 500 : 300 // "conv" is no misspelled "cov"
      else if (key.length > 2 && other.startsWith(key)) score = 400 - 8 * (other.length - key.length)
      else if (key.length > 3 && other.includes(key)) score = 250 - 6 * (other.length - key.length)
      if (/\.[A-Z]\w*\.\w+$/.test(name)) score -= 260 // a method
      if (score < 400 && prior < 1) continue // helpers for tests, unless they are asked for by name
      if (score > 0 && score + prior > (found.get(page) || 0)) found.set(page, score + prior)
    }
    return found
  }

  // Stems that a word of the query stands for: {stem: weight}.
  meant(word) {
    const key = stem(word)
    const found = new Map()
    for (const other of synonyms.get(word) || []) found.set(stem(other), 0.45)
    if (this.posts.has(key)) found.set(key, 1)
    else if (word.length > 3) {
      for (const [other, spelled] of this.spelled) {
        if (near(word, spelled) || near(key, other)) {
          found.set(other, Math.max(0.8, found.get(other) || 0))
          for (const same of synonyms.get(spelled) || []) if (!found.has(stem(same))) found.set(stem(same), 0.35)
        }
      }
    }
    if (word.length > 2) {
      for (const other of this.posts.keys()) {
        const longer = other.startsWith(key), shorter = other.length > 3 && key.startsWith(other)
        if (other !== key && (longer || shorter) && !found.has(other)) found.set(other, 0.4)
      }
    }
    return found
  }

  // Sections with the words: {section: score}.
  worded(query) {
    let asked = words(query)
    const kept = asked.filter(word => !STOP.has(word))
    if (kept.length) asked = kept
    const found = new Map()
    for (const word of asked) {
      const best = new Map()
      for (const [key, weight] of this.meant(word)) {
        const posts = this.posts.get(key) || []
        const rarity = Math.log(1 + this.sections.length / (1 + posts.length))
        for (const [number, count] of posts) {
          const score = weight * rarity * count / (count + 2 * this.sections[number].length)
          if (score > (best.get(number) || 0)) best.set(number, score)
        }
      }
      for (const [number, score] of best) {
        const old = found.get(number) || {score: 0, words: 0}
        found.set(number, {score: old.score + score, words: old.words + 1})
      }
    }
    const scores = new Map()
    for (const [number, {score, words: hit}] of found) {
      const section = this.sections[number]
      const kind = section.api ? (asked.length > 1 ? 0.55 : 0.8) : /^(?:design|how\/changelog)/.test(section.path) ? 0.5 : 1
      scores.set(section, score * kind * (hit / asked.length) ** 2 * (section.main ? 1.15 : 1) * (section.doc.boost < 1 ? 0.6 : 1))
    }
    return scores
  }

  search(query) {
    query = query.trim().replace(/["*]/g, "")
    if (!query) return []
    const named = this.named(query)
    const pages = new Map()
    for (const [section, score] of this.worded(query)) {
      const page = pages.get(section.path) || {score: 0, sections: []}
      page.sections.push([section, score])
      pages.set(section.path, page)
    }
    for (const page of pages.values()) { // the best section, and a little of the others
      page.sections.sort((a, b) => b[1] - a[1])
      page.score = page.sections.slice(0, 4).reduce((sum, [, score], i) => sum + score * 0.3 ** i, 0)
    }
    for (const [location, score] of named) {
      const path = location.split("#")[0]
      if (!this.pages.has(path)) continue
      const page = pages.get(path) || {score: 0, sections: []}
      page.score = Math.max(page.score, 0) / 10 + score
      page.anchor = page.anchor && page.best >= score ? page.anchor : location.split("#")[1]
      page.best = Math.max(page.best || 0, score)
      pages.set(path, page)
    }
    const sought = words(query).filter(word => !STOP.has(word))
    const ranked = [...pages].sort((a, b) => b[1].score - a[1].score)
    const guide = ranked.findIndex(([path, page]) => !/^(?:api|design)\//.test(path) && page.score > 1.5)
    if (guide > 2) ranked.splice(2, 0, ...ranked.splice(guide, 1)) // a page to read among the first three
    return ranked.slice(0, 30).map(([path, page]) => {
      const {main, sections} = this.pages.get(path)
      const chosen = page.anchor ? sections.filter(s => s.doc.location.endsWith(`#${page.anchor}`)) : []
      const parts = [...new Set([...chosen, ...page.sections.slice(0, 3).map(([section]) => section)])].slice(0, 3)
      return [main, ...parts.filter(section => section !== main)].map((section, i) => ({
        ...section.doc, title: escaped(section.title), text: snippet(section.text, sought), tags: undefined,
        score: i ? page.score / (i + 1) : page.score,
        terms: Object.fromEntries(sought.filter(word => section.text.toLowerCase().includes(word)).map(word => [word, true]))}))
    })
  }
}

// A part of a text around the first word that is sought, with these marked.
function snippet(text, sought) {
  const lower = text.toLowerCase()
  const places = sought.map(word => lower.indexOf(word)).filter(place => place >= 0)
  const start = Math.max(0, (places.length ? Math.min(...places) : 0) - 60)
  const part = (start ? "… " : "") + text.slice(start ? text.indexOf(" ", start) + 1 : 0, start + 220)
  const pattern = sought.map(word => word.replace(/[^a-z0-9_]/g, "")).filter(Boolean).join("|")
  return pattern ? escaped(part).replace(new RegExp(`\\b(?:${pattern})`, "gi"), "<mark>$&</mark>") : escaped(part)
}

let index
const answer = async ({type, data}) => {
  if (type === 0) {
    const names = await (await fetch(new URL("names.json", self.location))).json()
    index = new Index(data.docs, names)
    return {type: 1}
  }
  return {type: 3, data: {items: index.search(data)}}
}
if (typeof addEventListener === "function" && typeof postMessage === "function") {
  addEventListener("message", async event => postMessage(await answer(event.data)))
}
if (typeof module !== "undefined") module.exports = {Index} // for trying it without a browser
