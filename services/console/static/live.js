// A part of a page whose HTML the server sends anew. What is equal stays as it is, so that the focus, an open story and
// the place where a table was scrolled to are kept. Buttons with data-act are reported to the server.
function same(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName;
}
function attributes(into, from) {
  for (const { name } of [...into.attributes]) {
    if (!from.hasAttribute(name) && !(name === "open" && into.nodeName === "DETAILS")) into.removeAttribute(name);
  }
  for (const { name, value } of from.attributes) {
    if (into.getAttribute(name) !== value) into.setAttribute(name, value);
  }
}
export function children(into, from) {
  // Both lists before the first move: a node that is taken over leaves `from`.
  const old = [...into.childNodes], wanted = [...from.childNodes];
  wanted.forEach((node, at) => {
    const known = old[at];
    if (!known) into.appendChild(node);
    else if (!same(known, node)) into.replaceChild(node, known);
    else if (node.nodeType === Node.ELEMENT_NODE) {
      if (known.isEqualNode(node)) return;
      attributes(known, node);
      children(known, node);
    } else if (known.nodeValue !== node.nodeValue) known.nodeValue = node.nodeValue;
  });
  old.slice(wanted.length).forEach((node) => node.remove());
}
function localise(root) {
  for (const one of root.querySelectorAll("time")) {
    const at = new Date(one.getAttribute("datetime"));
    const today = at.toDateString() === new Date().toDateString();
    const clock = at.toLocaleTimeString([], { hour12: false });
    one.textContent = today ? clock : `${at.toLocaleDateString()} ${clock}`;
  }
}
export default {
  template: '<div @click="clicked"></div>',
  props: { html: String },
  mounted() { this.show(); },
  watch: { html() { this.show(); } },
  methods: {
    show() {
      const made = document.createElement("template");
      made.innerHTML = this.html || "";
      localise(made.content);
      children(this.$el, made.content);
    },
    clicked(event) {
      const button = event.target.closest("[data-act]");
      if (button) this.$emit("act", { act: button.dataset.act, of: button.dataset.of });
    },
  },
};
