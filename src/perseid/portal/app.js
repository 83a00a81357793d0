// The frame around the views: signs in, reads the address, shows the view for it.

import * as api from "./api.js";
import { clock } from "./clock.js";
import { clockButton } from "./clock-panel.js";
import { confirm, errorToast } from "./dialogs.js";
import { fill, h, iconButton } from "./elements.js";
import { failure, loading } from "./placeholders.js";
import { link, parse, TABS } from "./routes.js";
import { onShortcut, showShortcuts } from "./shortcuts.js";
import { Tree } from "./tree.js";
import { ChangesView } from "./views/changes.js";
import { DatabaseView } from "./views/database.js";
import { ItemsView } from "./views/items.js";
import { LifetimesView } from "./views/lifetimes.js";
import { OverviewView } from "./views/overview.js";
import { QueryView } from "./views/query.js";
import { SettingsView } from "./views/settings.js";
import { signInAgain, signInPage } from "./views/sign-in.js";

const app = document.getElementById("app");
const VIEWS = { items: ItemsView, query: QueryView, changes: ChangesView, settings: SettingsView, lifetimes: LifetimesView };
const KEY_IN_ADDRESS = /^#key=([^&]*)/;

let view = null; // the current view; its methods dispose, canLeave, update and refresh are optional
let shownHash = null; // the address of the current view
let shownEntry = null; // its entry in the history, where the browser supports that
let isAsking = false; // whether unsaved changes are to be discarded
let isAskingForKey = false;
let isLockedOut = false; // the user did not enter another key, in order to keep unsaved text

// Signing in

/** Returns the key in the address and removes it from there before any request is sent. */
function takeKeyFromAddress(address = "") {
  const match = KEY_IN_ADDRESS.exec(location.hash);
  if (!match) return null;
  history.replaceState(null, "", address || location.pathname + location.search);
  try {
    return decodeURIComponent(match[1]);
  } catch {
    return match[1]; // not a valid key: signing in reports that
  }
}

async function start() {
  const key = takeKeyFromAddress() ?? api.storedKey();
  fill(app, loading("Connecting"));
  try {
    if (key) await api.signIn(key);
    else if (!(await api.isOpen())) return showSignIn();
  } catch (error) {
    if (error instanceof api.ServerUnreachable) return fill(app, failure(error, start));
    return showSignIn(error.message);
  }
  openPortal();
}

function showSignIn(message = "") {
  leaveView();
  clock.stop();
  window.onhashchange = window.onbeforeunload = null;
  fill(app, signInPage(openPortal, message));
  app.querySelector("[autofocus]")?.focus();
}

async function signOut() {
  if (isUnsaved() && !(await confirmDiscard())) return;
  api.signOut();
  showSignIn();
}

/** The server rejects the key. Unsaved text, in the view or in a dialog, is kept. */
async function onUnauthorized({ detail: error }) {
  api.signOut();
  if (isAskingForKey) return;
  if (!hasUnsavedText()) return showSignIn(error.message);
  isAskingForKey = true;
  const isSignedIn = await signInAgain(error.message);
  isAskingForKey = false;
  isLockedOut = !isSignedIn;
  if (isSignedIn) continueWithNewKey();
  else if (!hasUnsavedText()) showSignIn(error.message);
  // Otherwise the next attempt to save or to leave asks again.
}

function continueWithNewKey() {
  isLockedOut = false;
  clock.start();
  view?.refresh?.();
  document.dispatchEvent(new Event("catalog"));
}

// The frame

function openPortal() {
  isLockedOut = false;
  const tree = new Tree();
  const main = h("main", { id: "main", tabindex: "-1" });
  const breadcrumb = h("nav", { class: "breadcrumb", "aria-label": "Breadcrumb" });
  const drawer = treeDrawer(tree.node);
  fill(app,
    h("a", { class: "skip", href: "#main", onclick: (event) => {
      event.preventDefault();
      main.focus();
    } }, "Skip to content"),
    topBar(drawer.button, breadcrumb),
    tree.node, drawer.backdrop, main);
  clock.start();
  const show = () => {
    drawer.close();
    showRoute({ tree, main, breadcrumb });
  };
  window.onhashchange = () => onAddressChange(show);
  window.onbeforeunload = (event) => {
    if (isUnsaved()) event.preventDefault();
  };
  shownHash = null;
  show();
}

function topBar(menuButton, breadcrumb) {
  return h("header", { class: "topbar" },
    menuButton,
    h("a", { class: "brand", href: link({}), "aria-label": "Perseid, overview" },
      h("img", { src: "meteor.svg", alt: "", width: "22", height: "22" }), h("span", {}, "Perseid")),
    breadcrumb,
    h("div", { class: "grow" }),
    clockButton(),
    iconButton("help", "Keyboard shortcuts", showShortcuts, { class: "icon-button help" }),
    api.isSignedIn()
      ? iconButton("signOut", "Sign out", signOut)
      : h("span", { class: "chip", title: "The server was started with --no-auth" }, "no key needed"));
}

/** On a phone the tree is a drawer: {button, backdrop, close()}. */
function treeDrawer(tree) {
  const isOpen = () => app.classList.contains("drawer-open");
  const setOpen = (open) => {
    app.classList.toggle("drawer-open", open);
    menuButton.setAttribute("aria-expanded", String(open));
  };
  const menuButton = iconButton("menu", "Databases", () => {
    setOpen(!isOpen());
    if (isOpen()) tree.querySelector("a, button")?.focus();
  }, { class: "icon-button menu", "aria-expanded": "false", "aria-controls": "tree" });
  tree.addEventListener("click", (event) => {
    if (event.target.closest("a")) setOpen(false);
  });
  app.onkeydown = (event) => {
    if (event.key !== "Escape" || !isOpen()) return;
    setOpen(false);
    menuButton.focus();
  };
  const close = () => setOpen(false);
  return { button: menuButton, backdrop: h("div", { class: "drawer-backdrop", onclick: close }), close };
}

// Navigation

/** Asks before unsaved changes are lost. Meanwhile the address and the history stay as they were. */
async function onAddressChange(show) {
  if (location.hash === shownHash || isAsking) return;
  if (!isUnsaved()) return show();
  const nextHash = location.hash;
  const nextEntry = historyEntry();
  const isElsewhere = nextEntry !== shownEntry && !isAfterShown(); // in the history: other entries must stay
  isAsking = true;
  await restoreAddress();
  const isConfirmed = await confirmDiscard();
  if (!isConfirmed) await restoreAddress();
  isAsking = false;
  if (!isConfirmed) return;
  leaveView();
  if (location.hash !== shownHash) return show(); // a later navigation wins
  if (!isElsewhere) {
    history.pushState(null, "", nextHash);
    return show();
  }
  await traverse(nextEntry);
  if (!view) show(); // otherwise the event of a navigation has shown it
}

async function restoreAddress() {
  if (location.hash === shownHash) return;
  if (historyEntry() === shownEntry) history.replaceState(null, "", shownHash || location.pathname);
  else await traverse(shownEntry);
}

/** Goes to an entry of the history, unless it no longer exists or a later navigation wins. */
async function traverse(entry) {
  const { committed, finished } = navigation.traverseTo(entry);
  await Promise.allSettled([committed, finished]); // both fail
}

function showRoute({ tree, main, breadcrumb }) {
  if (isLockedOut) return showSignIn();
  const route = parse(location.hash);
  if (route.isUnknown) history.replaceState(null, "", link(route)); // the address of what is shown instead
  const previous = shownHash === null ? null : parse(shownHash);
  shownHash = location.hash;
  shownEntry = historyEntry();
  tree.select(route);
  fill(breadcrumb, breadcrumbLinks(route));
  document.title = [route.container ?? route.database, "Perseid"].filter(Boolean).join(" – ");
  const isSameView = previous && view && ["database", "container", "tab"].every((name) => previous[name] === route[name]);
  if (isSameView && view.update) return view.update(route);
  leaveView();
  const hadFocus = main.contains(document.activeElement);
  openView(main, route);
  main.scrollTop = 0;
  if (hadFocus && !main.contains(document.activeElement)) (currentTab(main) ?? main).focus();
}

function openView(main, route) {
  const body = h("div", { class: "view" });
  const heading = route.container && h("h1", { class: "visually-hidden" }, `${route.container}: ${TABS[route.tab]}`); // other views show theirs
  fill(main, heading, route.container && tabLinks(route), body);
  currentTab(main)?.scrollIntoView({ block: "nearest", inline: "nearest" }); // on a phone not all tabs fit
  if (route.container) view = new VIEWS[route.tab](body, route);
  else view = route.database ? new DatabaseView(body, route) : new OverviewView(body);
}

function leaveView() {
  view?.dispose?.();
  view = null;
}

const currentTab = (main) => main.querySelector(".tabs [aria-current]");
const isAfterShown = () => navigation.entries().slice(-2).map(({ key }) => key).join() === [shownEntry, historyEntry()].join();
const historyEntry = () => globalThis.navigation?.currentEntry?.key ?? null;
const isUnsaved = () => Boolean(view?.canLeave) && !view.canLeave();
const hasUnsavedText = () => isUnsaved() || document.querySelector("dialog[open]") !== null;
const confirmDiscard = () => confirm("Leave without saving?", "Your changes will be lost.", { yes: "Discard changes" });

function breadcrumbLinks({ database, container }) {
  return [
    database && h("a", { href: link({ database }), "aria-current": container ? null : "page" }, database),
    container && h("span", { class: "separator", "aria-hidden": "true" }, "/"),
    container && h("a", { href: link({ database, container }), "aria-current": "page" }, container),
  ];
}

function tabLinks(route) {
  return h("nav", { class: "tabs", "aria-label": "Container" },
    Object.entries(TABS).map(([tab, label]) =>
      h("a", { href: link({ ...route, tab, rest: [], options: {} }), "aria-current": tab === route.tab ? "page" : null }, label)));
}

document.addEventListener("unauthorized", onUnauthorized);
document.addEventListener("address", () => (shownHash = location.hash));
document.addEventListener("keydown", onShortcut);

// The address may also pass a key to a page that is already open; no other listener may see it.
window.addEventListener("hashchange", (event) => {
  if (!KEY_IN_ADDRESS.test(location.hash)) return;
  event.stopImmediatePropagation();
  if (!isUnsaved()) return start();
  api.signIn(takeKeyFromAddress(shownHash)).then(continueWithNewKey, errorToast);
});

start();
