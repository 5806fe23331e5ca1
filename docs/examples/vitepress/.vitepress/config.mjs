import { defineConfig } from "vitepress";

export default defineConfig({
  title: "Stack",
  base: "/vitepress/",
  // What is in public/ is named with the base here.
  head: [["script", { type: "module", src: "/vitepress/foretoken/widget.js" }]],
  // Vue leaves the tag to the browser.
  vue: { template: { compilerOptions: { isCustomElement: (tag) => tag === "foretoken-widget" } } },
  srcExclude: ["README.md"],
});
