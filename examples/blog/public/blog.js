// The theme switch. Everything else works without a script.
const root = document.documentElement;
const dark = () => root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

document.querySelector("[data-theme-switch]")?.addEventListener("click", () => {
  const next = dark() === "dark" ? "light" : "dark";
  root.dataset.theme = next;
  document.cookie = `theme=${next}; path=/; max-age=31536000; samesite=lax`;
});
