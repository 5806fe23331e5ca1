// A Vulkan driver in front of Mesa's RADV, for compiling pipelines of GPUs that are not there. RADV_FORCE_FAMILY makes
// RADV a device of "null hardware", with the real compiler and no memory. This driver passes every call on to it, gives
// its heaps a size, memory for what is mapped, and turns commands and submits into nothing, so that wgpu and llama.cpp
// open it as a GPU. Nothing is computed. It knows structures by the offsets of the Vulkan specification, because the
// headers are not installed where the driver is. REAL is the path of RADV.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef void (*call)(void);
typedef int (*handler)(void *, void *, void *, void *);

static void *library;
static call (*instance_call)(void *, const char *);

static void *symbol(const char *name) {
	if (!library) {
		library = dlopen(REAL, RTLD_NOW | RTLD_LOCAL);
		if (!library) fprintf(stderr, "nullgpu: %s\n", dlerror());
	}
	return library ? dlsym(library, name) : NULL;
}

// Heaps and memory types: VkPhysicalDeviceMemoryProperties has types at byte 4 and heaps at byte 264.
enum { HEAP_COUNT = 260, HEAPS = 264, BUDGET = 1000237000 };
static const uint64_t heap_size = 8ull << 30;
static void (*memory_properties)(void *, void *), (*memory_properties2)(void *, void *);

static void enlarge(char *properties) {
	uint32_t *types = (uint32_t *)properties, *heaps = (uint32_t *)(properties + HEAP_COUNT);
	struct { uint64_t size; uint32_t flags, pad; } *heap = (void *)(properties + HEAPS);
	if (*heaps == 0) {
		*heaps = 1;
		heap[0].flags = 1; // device local
	}
	if (types[0] == 0) {
		types[0] = 1;
		types[1] = 1 | 2 | 4; // device local, host visible, host coherent
		types[2] = 0;
	}
	for (uint32_t i = 0; i < *heaps; i++)
		if (heap[i].size < heap_size) heap[i].size = heap_size;
}

static void on_memory_properties(void *device, void *out) {
	memory_properties(device, out);
	enlarge(out);
}

static void on_memory_properties2(void *device, void *out) {
	char *budget = *(char **)((char *)out + 8);
	while (budget && *(uint32_t *)budget != BUDGET) budget = *(char **)(budget + 8);
	if (budget) *(uint32_t *)budget = ~0u; // hidden, because RADV asks an integrated GPU's kernel driver and crashes
	memory_properties2(device, out);
	enlarge((char *)out + 16);
	if (!budget) return;
	*(uint32_t *)budget = BUDGET;
	uint64_t *values = (uint64_t *)(budget + 16); // 16 budgets, 16 usages
	for (int i = 0; i < 16; i++) {
		values[i] = heap_size;
		values[16 + i] = 0;
	}
}

// Requirements: the allowed memory types follow size and alignment, and in VkMemoryRequirements2 also type and chain.
static void (*requirements[5])(void *, void *, void *);

static void allow(void *types) {
	if (!*(uint32_t *)types) *(uint32_t *)types = 1;
}
static void on_buffer(void *d, void *b, void *out) { requirements[0](d, b, out); allow((char *)out + 16); }
static void on_buffer2(void *d, void *b, void *out) { requirements[1](d, b, out); allow((char *)out + 32); }
static void on_image(void *d, void *b, void *out) { requirements[2](d, b, out); allow((char *)out + 16); }
static void on_image2(void *d, void *b, void *out) { requirements[3](d, b, out); allow((char *)out + 32); }
static void on_device_buffer(void *d, void *b, void *out) { requirements[4](d, b, out); allow((char *)out + 32); }

// Mapped memory is the host's.
static struct { uint64_t handle, size; char *bytes; } memories[1 << 16];
static int memory_count;
static handler allocate, create_semaphore;

static int on_allocate(void *device, void *info, void *allocator, void *out) {
	int failed = allocate(device, info, allocator, out);
	if (!failed && memory_count < 1 << 16) {
		memories[memory_count].handle = *(uint64_t *)out;
		memories[memory_count].bytes = NULL;
		memories[memory_count++].size = ((uint64_t *)info)[2];
	}
	return failed;
}

static int on_map(void *device, uint64_t memory, uint64_t offset, uint64_t size, uint32_t flags, void **out) {
	for (int i = memory_count - 1; i >= 0; i--) {
		if (memories[i].handle != memory) continue;
		if (!memories[i].bytes) {
			void *pages = mmap(NULL, memories[i].size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			if (pages == MAP_FAILED) break;
			memories[i].bytes = pages;
		}
		*out = memories[i].bytes + offset;
		return 0;
	}
	return -5; // VK_ERROR_MEMORY_MAP_FAILED
}

// Null hardware refuses timeline semaphores: a binary one stands in, and every value counts as reached.
static int on_semaphore(void *device, void *info, void *allocator, void *out) {
	struct { uint32_t type, pad; void *next; uint32_t flags; } binary = {9, 0, NULL, 0};
	return create_semaphore(device, info, allocator, out) ? create_semaphore(device, &binary, allocator, out) : 0;
}
static int on_fence(void *device, void *info, void *allocator, uint64_t *out) {
	static uint64_t fences;
	*out = ++fences;
	return 0;
}
static int on_value(void *device, void *semaphore, uint64_t *value) {
	*value = INT64_MAX;
	return 0;
}
static int nothing(void) { return 0; }

// After a pipeline's statistics, standard error gets its handle, and later the name that the application gives it. One
// pipeline is compiled at a time, so that statistics do not mix.
static int (*create_pipelines)(void *, uint64_t, uint32_t, void *, void *, uint64_t *);
static handler name_object;
static pthread_mutex_t compiling = PTHREAD_MUTEX_INITIALIZER;

static int on_pipelines(void *device, uint64_t cache, uint32_t n, void *infos, void *allocator, uint64_t *out) {
	pthread_mutex_lock(&compiling);
	int failed = create_pipelines(device, cache, n, infos, allocator, out);
	for (uint32_t i = 0; i < n; i++) fprintf(stderr, "PIPELINE %llx\n", failed ? 0 : (unsigned long long)out[i]);
	pthread_mutex_unlock(&compiling);
	return failed;
}

static int on_name(void *device, void *info, void *unused, void *unused2) {
	struct { uint32_t type, pad; void *next; uint64_t kind, handle; const char *name; } *named = info;
	pthread_mutex_lock(&compiling);
	if ((uint32_t)named->kind == 19) // a pipeline
		fprintf(stderr, "NAMED %llx %s\n", (unsigned long long)named->handle, named->name ? named->name : "");
	pthread_mutex_unlock(&compiling);
	return name_object(device, info, unused, unused2);
}

static call wrap(const char *name, call real);
static call (*device_call)(void *, const char *);
static call on_device_call(void *device, const char *name) { return wrap(name, device_call(device, name)); }

static const struct { const char *name; void *real; void *by; } wrapped[] = {
	{"vkGetDeviceProcAddr", &device_call, on_device_call},
	{"vkGetPhysicalDeviceMemoryProperties", &memory_properties, on_memory_properties},
	{"vkGetPhysicalDeviceMemoryProperties2", &memory_properties2, on_memory_properties2},
	{"vkGetPhysicalDeviceMemoryProperties2KHR", &memory_properties2, on_memory_properties2},
	{"vkGetBufferMemoryRequirements", &requirements[0], on_buffer},
	{"vkGetBufferMemoryRequirements2", &requirements[1], on_buffer2},
	{"vkGetBufferMemoryRequirements2KHR", &requirements[1], on_buffer2},
	{"vkGetImageMemoryRequirements", &requirements[2], on_image},
	{"vkGetImageMemoryRequirements2", &requirements[3], on_image2},
	{"vkGetImageMemoryRequirements2KHR", &requirements[3], on_image2},
	{"vkGetDeviceBufferMemoryRequirements", &requirements[4], on_device_buffer},
	{"vkGetDeviceBufferMemoryRequirementsKHR", &requirements[4], on_device_buffer},
	{"vkAllocateMemory", &allocate, on_allocate},
	{"vkMapMemory", NULL, on_map},
	{"vkCreateSemaphore", &create_semaphore, on_semaphore},
	{"vkCreateComputePipelines", &create_pipelines, on_pipelines},
	{"vkSetDebugUtilsObjectNameEXT", &name_object, on_name},
	{"vkGetSemaphoreCounterValue", NULL, on_value},
	{"vkGetSemaphoreCounterValueKHR", NULL, on_value},
	{"vkCreateFence", NULL, on_fence},
	{"vkDestroyFence", NULL, nothing},
	{"vkResetFences", NULL, nothing},
	{"vkGetFenceStatus", NULL, nothing},
	{"vkWaitForFences", NULL, nothing},
	{"vkWaitSemaphores", NULL, nothing},
	{"vkWaitSemaphoresKHR", NULL, nothing},
	{"vkQueueSubmit", NULL, nothing},
	{"vkQueueSubmit2", NULL, nothing},
	{"vkQueueSubmit2KHR", NULL, nothing},
	{"vkQueueWaitIdle", NULL, nothing},
	{"vkDeviceWaitIdle", NULL, nothing},
	{"vkBeginCommandBuffer", NULL, nothing},
	{"vkEndCommandBuffer", NULL, nothing},
	{"vkResetCommandBuffer", NULL, nothing},
	{"vkFreeCommandBuffers", NULL, nothing},
	{"vkResetCommandPool", NULL, nothing},
	{"vkDestroyCommandPool", NULL, nothing},
};

static call wrap(const char *name, call real) {
	if (!real) return NULL;
	if (!strncmp(name, "vkCmd", 5)) return (call)nothing;
	for (size_t i = 0; i < sizeof wrapped / sizeof *wrapped; i++) {
		if (strcmp(name, wrapped[i].name)) continue;
		if (wrapped[i].real) *(call *)wrapped[i].real = real;
		return (call)wrapped[i].by;
	}
	return real;
}

// What a loader calls: its interface for drivers.
call vk_icdGetInstanceProcAddr(void *instance, const char *name) {
	if (!instance_call) *(void **)&instance_call = symbol("vk_icdGetInstanceProcAddr");
	return instance_call ? wrap(name, instance_call(instance, name)) : NULL;
}
call vk_icdGetPhysicalDeviceProcAddr(void *instance, const char *name) {
	call (*real)(void *, const char *);
	*(void **)&real = symbol("vk_icdGetPhysicalDeviceProcAddr");
	return real ? wrap(name, real(instance, name)) : NULL;
}
int vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version) {
	int (*real)(uint32_t *);
	*(void **)&real = symbol("vk_icdNegotiateLoaderICDInterfaceVersion");
	return real ? real(version) : -9; // VK_ERROR_INCOMPATIBLE_DRIVER
}
