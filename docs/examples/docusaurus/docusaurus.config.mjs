export default {
  title: "Stack",
  url: "https://docs.example",
  baseUrl: "/docusaurus/",
  // What is in static/ is named with the base here.
  scripts: [{ src: "/docusaurus/foretoken/widget.js", type: "module" }],
  plugins: [["@docusaurus/plugin-content-docs", { routeBasePath: "/", sidebarPath: false }]],
  themes: ["@docusaurus/theme-classic"],
  themeConfig: { navbar: { title: "Stack" } },
};
