/** The overall state: all is well, or what is wrong and what to do. */

import { byId, reconcile, setAttribute, setText } from "./dom.js";
import { findings } from "./health.js";
import { makeNotice, showNotice } from "./notice.js";

/** @typedef {import("./health.js").Finding} Finding */

const ICONS = { stop: "stop", warn: "warn" };

export class Verdict {
  constructor() {
    this.list = byId("verdict");
    this.announcer = byId("announcer");
    this.icon = byId("favicon");
    /** @type {Finding[]} */
    this.findings = [];
    /** @type {Finding | null} */
    this.silence = null;
    this.said = "";
  }

  /** @param {import("./rates.js").View} view */
  update({ stat, rates }) {
    this.silence = null;
    this.findings = findings(stat, rates);
    this.show(stat.state);
  }

  /** The relay does not reply. @param {string} why @param {string} age of the figures, "" if there are none */
  silent(why, age) {
    this.silence = {
      id: "silence",
      level: "stop",
      title: "The relay does not reply",
      text: age ? `The figures below are ${age} old: ${why}.` : `No figures yet: ${why}.`,
      hint: "Check with `relay stat` on its host that it runs. This page retries by itself.",
    };
    this.show("no reply");
  }

  /** @param {string} state */
  show(state) {
    const all = this.silence ? [this.silence, ...this.findings] : this.findings;
    const calm = !all.some(({ level }) => level !== "idle");
    /** @type {Finding} */
    const well = { id: "well", level: "ok", title: "All is well", text: "", hint: "" };
    reconcile(this.list, calm ? [well, ...all] : all, ({ id }) => id, makeNotice, showNotice);
    const worst = all[0]?.level;
    document.title = `${worst === "stop" || worst === "warn" ? all[0].title : state} · relay`;
    setAttribute(this.icon, "href", `static/icons/${ICONS[worst] ?? "ok"}.svg`);
    this.announce(calm ? [well] : all);
  }

  /** Announces changes to screen readers. @param {Finding[]} all */
  announce(all) {
    const what = all.map(({ id, level }) => `${id} ${level}`).join(" ");
    if (what === this.said) return;
    this.said = what;
    const news = all.filter(({ alert }) => !alert); // their role announces those
    setText(
      this.announcer,
      news.map(({ title, text, hint }) => [`${title}.`, text, hint].filter(Boolean).join(" ")).join(" "),
    );
  }
}
