
// Light or dark: as the system says, until somebody says otherwise.

const themeButton = document.getElementById("theme");
const systemIsDark = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : systemIsDark.matches;
}

function drawTheme() {
  themeButton.textContent = isDark() ? "Light" : "Dark";
  themeButton.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
}

themeButton.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  drawTheme();
});
systemIsDark.addEventListener("change", drawTheme);

document.documentElement.classList.add("script");
drawTheme();
startMap();
startSets();
startClaims();
