import { createApp } from "vue";
import Stack from "./stack.vue";

createApp(Stack).mount("#app");
