import { mount } from "svelte";
import Stack from "./stack.svelte";

mount(Stack, { target: document.getElementById("app") });
