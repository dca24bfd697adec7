// Reads a page for someone who can't see it: what can be acted on, what it is
// called, where it is, and the text around it. It looks at a bounded part of
// the document and returns a bounded answer, whatever the page is made of.
(function (opts) {
  const maxNodes = 60000, maxDepth = 500, maxName = 120;
  const out = { items: [], more: 0, title: String(document.title).slice(0, 1000), url: String(location.href).slice(0, 8192), cut: false };
  let nodes = 0, depth = 0, textSize = 0, line = "";

  // From the viewport to the screen: the page is at the bottom of its window,
  // within a border that is the same on both sides and below.
  const scale = window.devicePixelRatio || 1;
  const border = Math.max(0, (window.outerWidth - window.innerWidth * scale) / 2);
  out.screen = {
    x: window.screenX + border,
    y: window.screenY + Math.max(0, window.outerHeight - window.innerHeight * scale - border),
    scale: scale,
  };
  out.view = { w: window.innerWidth, h: window.innerHeight, x: window.scrollX, y: window.scrollY,
    height: Math.max(document.documentElement ? document.documentElement.scrollHeight : 0, 0) };

  const squeeze = (s) => String(s || "").slice(0, 4000).replace(/\s+/g, " ").trim();
  const short = (s) => { s = squeeze(s); return s.length > maxName ? s.slice(0, maxName - 1) + "\u2026" : s; };
  const attr = (el, name) => squeeze(el.getAttribute(name));

  const inputRoles = { button: "button", submit: "button", reset: "button", image: "button", checkbox: "checkbox", radio: "radio",
    range: "slider", number: "spinbutton", search: "searchbox", file: "file upload", color: "color picker", hidden: "" };
  const tagRoles = { BUTTON: "button", TEXTAREA: "textbox", SUMMARY: "button", OPTION: "option", DIALOG: "dialog", IMG: "img", VIDEO: "video",
    AUDIO: "audio", CANVAS: "canvas", IFRAME: "frame", PROGRESS: "progressbar", METER: "meter", H1: "heading", H2: "heading",
    H3: "heading", H4: "heading", H5: "heading", H6: "heading" };
  const acted = new Set(["button", "link", "textbox", "searchbox", "checkbox", "radio", "switch", "slider", "spinbutton", "combobox",
    "listbox", "menuitem", "menuitemcheckbox", "menuitemradio", "option", "tab", "treeitem", "file upload", "color picker", "clickable", "gridcell"]);
  const told = new Set(["heading", "img", "dialog", "alert", "alertdialog", "status", "video", "audio", "canvas", "frame", "progressbar", "meter"]);

  function role(el) {
    const given = attr(el, "role").split(" ")[0].toLowerCase();
    if (given && (acted.has(given) || told.has(given))) return given;
    if (given === "presentation" || given === "none") return "";
    const tag = el.tagName.toUpperCase();
    if (tag === "A") return el.hasAttribute("href") ? "link" : el.hasAttribute("onclick") ? "clickable" : "";
    if (tag === "INPUT") { const r = inputRoles[(el.type || "text").toLowerCase()]; return r === undefined ? "textbox" : r; }
    if (tag === "SELECT") return el.multiple || el.size > 1 ? "listbox" : "combobox";
    if (tagRoles[tag]) return tagRoles[tag];
    if (el.isContentEditable && !(el.parentElement && el.parentElement.isContentEditable)) return "textbox";
    if (el.hasAttribute("onclick") || (el.hasAttribute("tabindex") && el.tabIndex >= 0)) return "clickable";
    return "";
  }

  // The text below an element, as far as it names it.
  function inner(el) {
    let s = "", n = 0;
    const walk = (node) => {
      for (let c = node.firstChild; c && s.length < 400 && n < 400; c = c.nextSibling) {
        n++;
        if (c.nodeType === 3) s += c.data.slice(0, 400);
        else if (c.nodeType === 1 && !/^(SCRIPT|STYLE|NOSCRIPT|TEMPLATE)$/i.test(c.tagName)) {
          const own = attr(c, "aria-label") || (c.tagName === "IMG" ? attr(c, "alt") : "");
          if (own) s += " " + own + " "; else { s += " "; walk(c); }
        }
      }
    };
    walk(el);
    return s;
  }

  function nameOf(el, r) {
    const by = attr(el, "aria-labelledby");
    if (by) {
      const s = by.split(" ").slice(0, 10).map((id) => { const e = el.getRootNode().getElementById(id); return e ? inner(e) : ""; }).join(" ");
      if (squeeze(s)) return short(s);
    }
    if (attr(el, "aria-label")) return short(attr(el, "aria-label"));
    const tag = el.tagName.toUpperCase();
    if (tag === "IMG" || tag === "INPUT" && el.type === "image") return short(attr(el, "alt") || attr(el, "title"));
    if (tag === "INPUT" && (el.type === "submit" || el.type === "button" || el.type === "reset")) return short(el.value || el.type);
    if (tag === "INPUT" || tag === "SELECT" || tag === "TEXTAREA") {
      const labels = el.labels ? Array.from(el.labels).slice(0, 5).map(inner).join(" ") : "";
      return short(squeeze(labels) || attr(el, "title") || attr(el, "placeholder") || attr(el, "name"));
    }
    if (r === "dialog" || r === "frame" || r === "canvas" || r === "video" || r === "audio") return short(attr(el, "title"));
    return short(squeeze(inner(el)) || attr(el, "title"));
  }

  function stateOf(el, r) {
    const s = [];
    const tag = el.tagName.toUpperCase();
    if (r === "heading") s.push("level " + (tag[0] === "H" && tag.length === 2 ? tag[1] : attr(el, "aria-level") || "2"));
    if (el.checked === true || el.getAttribute("aria-checked") === "true") s.push("checked");
    else if (r === "checkbox" || r === "radio" || r === "switch") s.push("not checked");
    if (el.disabled === true || el.getAttribute("aria-disabled") === "true") s.push("disabled");
    if (el.getAttribute("aria-expanded") === "true") s.push("expanded");
    if (el.getAttribute("aria-expanded") === "false") s.push("collapsed");
    if (el.getAttribute("aria-selected") === "true") s.push("selected");
    if (el.getAttribute("aria-pressed") === "true") s.push("pressed");
    if (el.getAttribute("aria-current") && el.getAttribute("aria-current") !== "false") s.push("current");
    let active = document.activeElement;
    if (active === el && active !== document.body) s.push("focused");
    return s.join(", ");
  }

  function valueOf(el, r) {
    const tag = el.tagName.toUpperCase();
    if (tag === "INPUT" && el.type === "password") return el.value ? "(hidden)" : "";
    if (tag === "SELECT") return short(Array.from(el.selectedOptions).slice(0, 5).map((o) => o.label).join(", "));
    if (tag === "INPUT" || tag === "TEXTAREA") return r === "checkbox" || r === "radio" || r === "button" ? "" : short(el.value);
    if (r === "textbox") return short(inner(el));
    return short(attr(el, "aria-valuetext") || attr(el, "aria-valuenow"));
  }

  function visible(el) {
    return typeof el.checkVisibility !== "function" || el.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true, visibilityProperty: true, opacityProperty: true });
  }

  function flush() {
    const s = squeeze(line);
    line = "";
    if (!s) return;
    if (textSize >= opts.text) { out.cut = true; return; }
    const t = s.slice(0, opts.text - textSize);
    textSize += t.length;
    if (opts.items > 0) add({ role: "text", name: t });
    else (out.text = out.text || []).push(t);
  }

  function add(item, el) {
    if (out.items.length >= opts.items) { out.more++; return; }
    out.items.push(item);
    if (el && out.items.length - 1 === opts.reveal) el.scrollIntoView({ block: "center", inline: "nearest", behavior: "instant" });
  }

  function place(el, item, off) {
    const r = el.getBoundingClientRect();
    // A box that only screen readers see stands for its label.
    let box = r;
    if ((r.width < 3 || r.height < 3) && el.labels && el.labels.length) box = el.labels[0].getBoundingClientRect();
    // A link of two lines has a middle that may not be its own.
    if (item.role === "link" && el.getClientRects().length > 1) box = el.getClientRects()[0];
    item.x = off.x + box.left + box.width / 2;
    item.y = off.y + box.top + box.height / 2;
    item.w = box.width; item.h = box.height;
    item.seen = item.x >= 0 && item.y >= 0 && item.x < window.innerWidth && item.y < window.innerHeight && box.width > 0 && box.height > 0;
    if (item.seen && off.top) {
      const hit = el.getRootNode().elementFromPoint(item.x - off.x, item.y - off.y);
      item.covered = !!hit && hit !== el && !el.contains(hit) && !hit.contains(el) && !(el.labels && Array.from(el.labels).some((l) => l.contains(hit)));
    }
  }

  function visit(el, off) {
    if (++nodes > maxNodes || depth > maxDepth) { out.cut = true; return; }
    depth++;
    enter(el, off);
    depth--;
  }

  function enter(el, off) {
    const tag = el.tagName.toUpperCase();
    if (/^(SCRIPT|STYLE|NOSCRIPT|TEMPLATE|HEAD|META|LINK|SVG|MATH|OBJECT|EMBED)$/.test(tag)) {
      if (tag === "SVG" && (attr(el, "aria-label"))) line += " " + attr(el, "aria-label") + " ";
      return;
    }
    if (opts.items > 0 && el.getAttribute("aria-hidden") === "true") return;
    const style = getComputedStyle(el);
    if (style.display === "none") return;
    const r = role(el);
    const inline = style.display.startsWith("inline") || style.display === "contents";
    if (!inline) flush();
    if ((acted.has(r) || told.has(r)) && r !== "option" && (visible(el) || el.tagName === "INPUT")) {
      const item = { role: r, name: nameOf(el, r) };
      if (r !== "img" || item.name) {
        flush();
        const state = stateOf(el, r), value = valueOf(el, r);
        if (state) item.state = state;
        if (value) item.value = value;
        if (r === "link") item.href = String(el.href || "").slice(0, 300);
        if (acted.has(r) || r === "canvas" || r === "img") place(el, item, off);
        if (opts.items > 0) add(item, el);
        else if (/^(INPUT|TEXTAREA|SELECT)$/.test(tag)) line += " " + (item.value || (r === "button" ? item.name : attr(el, "placeholder"))) + " ";
      }
      if (opts.items > 0 && (acted.has(r) && r !== "clickable" && r !== "gridcell" || r === "heading") && !el.querySelector("a,button,input,select,textarea")) return;
    }
    if (tag === "IFRAME") {
      let doc = null;
      try { doc = el.contentDocument; } catch (e) { doc = null; }
      if (doc && doc.body) {
        const b = el.getBoundingClientRect();
        flush(); visit(doc.body, { x: off.x + b.left + el.clientLeft, y: off.y + b.top + el.clientTop, top: false }); flush();
      }
      return;
    }
    if (tag === "INPUT" || tag === "TEXTAREA" || tag === "SELECT") { if (!inline) flush(); return; }
    if (tag === "BR" || tag === "HR") { flush(); return; }
    const shows = style.visibility !== "hidden" && style.visibility !== "collapse" && style.opacity !== "0";
    if (el.shadowRoot) children(el.shadowRoot, off, shows);
    else if (tag === "SLOT" && el.assignedNodes) { const list = el.assignedNodes(); each(list.length ? list : el.childNodes, off, shows); }
    else children(el, off, shows);
    if (!inline) flush();
    else if (tag === "TD" || tag === "TH" || style.display === "inline-block" || style.display === "inline-flex") line += " ";
  }

  function each(list, off, shows) {
    for (let i = 0; i < list.length && nodes <= maxNodes; i++) one(list[i], off, shows);
  }
  function children(parent, off, shows) {
    for (let c = parent.firstChild; c && nodes <= maxNodes; c = c.nextSibling) one(c, off, shows);
  }
  function one(c, off, shows) {
    nodes++;
    if (c.nodeType === 3) { if (shows && line.length < 8000) line += c.data.slice(0, 8000); }
    else if (c.nodeType === 1) visit(c, off);
    if (textSize >= opts.text && out.items.length >= opts.items) { out.cut = true; nodes = maxNodes + 1; }
  }

  if (document.body) { visit(document.body, { x: 0, y: 0, top: true }); flush(); }
  return out;
})
