// Compiles compute shaders in SPIR-V with Mesa's RADV, for a GPU that is not there (see shim.c):
//
//	spirv RADV FILE...
//
// RADV_FORCE_FAMILY names the GPU, and RADV_DEBUG=shaderstats has RADV print what it makes of each, after a line
// "KERNEL NUMBER". The features are on that RADV has, so robustBufferAccess2 too, which Chrome asks for where it leaves
// the bounds of buffers to the driver. The layout comes from the shader's decorations. It needs Debian's libvulkan-dev.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <vulkan/vulkan.h>

enum { BOUND = 1 << 16, BINDINGS = 16 };
enum { SPIRV_ENTRY_POINT = 15, SPIRV_VARIABLE = 59, SPIRV_DECORATE = 71 };
enum { SPIRV_BINDING = 33, SPIRV_DESCRIPTOR_SET = 34 };
enum { SPIRV_UNIFORM = 2, SPIRV_STORAGE_BUFFER = 12 };

static PFN_vkGetInstanceProcAddr lookup;
static VkInstance instance;
static VkDevice device;
static VkBool32 sizes_vary;

#define CALL(name) ((PFN_##name)lookup(instance, #name))

static void check(int failed, const char *what) {
	if (!failed) return;
	fprintf(stderr, "spirv: %s: %d\n", what, failed);
	exit(1);
}

static void open_device(const char *driver) {
	void *library = dlopen(driver, RTLD_NOW);
	check(!library, driver);
	*(void **)&lookup = dlsym(library, "vk_icdGetInstanceProcAddr");
	check(!lookup, "vk_icdGetInstanceProcAddr");
	VkApplicationInfo app = {VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3};
	VkInstanceCreateInfo info = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app};
	check(CALL(vkCreateInstance)(&info, NULL, &instance), "vkCreateInstance");
	uint32_t one = 1;
	VkPhysicalDevice card;
	check(CALL(vkEnumeratePhysicalDevices)(instance, &one, &card) || one != 1, "vkEnumeratePhysicalDevices");
	VkPhysicalDeviceSubgroupSizeControlProperties sizes = {
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
	VkPhysicalDeviceProperties2 properties = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &sizes};
	CALL(vkGetPhysicalDeviceProperties2)(card, &properties);
	sizes_vary = sizes.minSubgroupSize != sizes.maxSubgroupSize;

	VkPhysicalDeviceRobustness2FeaturesEXT robust = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ROBUSTNESS_2_FEATURES_EXT};
	VkPhysicalDeviceVulkan13Features v13 = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES, &robust};
	VkPhysicalDeviceVulkan12Features v12 = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, &v13};
	VkPhysicalDeviceVulkan11Features v11 = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, &v12};
	VkPhysicalDeviceFeatures2 features = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &v11};
	CALL(vkGetPhysicalDeviceFeatures2)(card, &features);
	check(!robust.robustBufferAccess2, "the driver has no robustBufferAccess2");
	const char *extensions[] = {VK_EXT_ROBUSTNESS_2_EXTENSION_NAME};
	VkDeviceQueueCreateInfo queue = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1,
		.pQueuePriorities = &(float){1}};
	VkDeviceCreateInfo create = {VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &features, .queueCreateInfoCount = 1,
		.pQueueCreateInfos = &queue, .enabledExtensionCount = 1, .ppEnabledExtensionNames = extensions};
	check(CALL(vkCreateDevice)(card, &create, NULL, &device), "vkCreateDevice");
}

static void compile(const uint32_t *code, size_t words) {
	static uint32_t set[BOUND], binding[BOUND];
	VkDescriptorSetLayoutBinding list[BINDINGS];
	uint32_t count = 0;
	const char *entry = NULL;
	for (size_t i = 5, next; i < words; i = next) {
		const uint32_t *op = code + i;
		next = i + (op[0] >> 16);
		check(next == i || next > words, "the SPIR-V is cut off");
		switch (op[0] & 0xffff) {
		case SPIRV_ENTRY_POINT:
			entry = (const char *)(op + 3);
			break;
		case SPIRV_DECORATE:
			check(op[1] >= BOUND, "too many ids");
			if (op[2] == SPIRV_BINDING) binding[op[1]] = op[3];
			if (op[2] == SPIRV_DESCRIPTOR_SET) set[op[1]] = op[3];
			break;
		case SPIRV_VARIABLE: // follows all decorations
			if (op[3] != SPIRV_UNIFORM && op[3] != SPIRV_STORAGE_BUFFER) break;
			check(set[op[2]] != 0 || count == BINDINGS, "more bindings than a kernel has");
			VkDescriptorType type = op[3] == SPIRV_UNIFORM ? VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER
				: VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
			list[count++] = (VkDescriptorSetLayoutBinding){binding[op[2]], type, 1, VK_SHADER_STAGE_COMPUTE_BIT};
		}
	}
	check(!entry, "no entry point");
	VkDescriptorSetLayoutCreateInfo bindings = {VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
		.bindingCount = count, .pBindings = list};
	VkDescriptorSetLayout sets;
	check(CALL(vkCreateDescriptorSetLayout)(device, &bindings, NULL, &sets), "vkCreateDescriptorSetLayout");
	VkPipelineLayoutCreateInfo layout = {VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = 1,
		.pSetLayouts = &sets};
	VkShaderModuleCreateInfo module = {VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = 4 * words,
		.pCode = code};
	// Where a GPU has subgroups of 32 and of 64 lanes, Chrome takes 64.
	VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
		VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO, .requiredSubgroupSize = 64};
	VkComputePipelineCreateInfo info = {VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO, .stage = {
		VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, .pNext = sizes_vary ? &size : NULL,
		.stage = VK_SHADER_STAGE_COMPUTE_BIT, .pName = entry}};
	check(CALL(vkCreatePipelineLayout)(device, &layout, NULL, &info.layout), "vkCreatePipelineLayout");
	check(CALL(vkCreateShaderModule)(device, &module, NULL, &info.stage.module), "vkCreateShaderModule");
	VkPipeline made;
	check(CALL(vkCreateComputePipelines)(device, VK_NULL_HANDLE, 1, &info, NULL, &made), "vkCreateComputePipelines");
}

int main(int count, char **args) {
	check(count < 3, "want RADV FILE...");
	open_device(args[1]);
	for (int i = 2; i < count; i++) {
		static uint32_t code[1 << 20];
		FILE *file = fopen(args[i], "rb");
		check(!file, args[i]);
		size_t words = fread(code, 4, sizeof code / 4, file);
		fclose(file);
		fprintf(stderr, "KERNEL %d\n", i - 2);
		compile(code, words);
	}
	exit(0); // null hardware cannot free everything
}
