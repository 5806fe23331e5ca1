import { svelte } from "@sveltejs/vite-plugin-svelte";
import vue from "@vitejs/plugin-vue";
import { defineConfig } from "vite";

export default defineConfig({
  base: "/frameworks/",
  plugins: [
    // Vue leaves the tag to the browser; React and Svelte do so by themselves.
    vue({ template: { compilerOptions: { isCustomElement: (tag) => tag === "foretoken-widget" } } }),
    svelte(),
  ],
  build: { rolldownOptions: { input: ["react/index.html", "vue/index.html", "svelte/index.html"] } },
});
