//go:build cgo && !js

package native

/*
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>

// These declarations repeat, with the layout of the header vendored by go-webgpu v0.17.1, the few entry points of
// wgpu-native for which the binding fails. The binding links the library.
//
// - The binding's MapAsync hands C the address of a Go variable that is not kept alive until the callback; a
// garbage collection in between corrupts it.
// - Its RequestDevice leaves maxBufferSize out of the requested limits.
// - It sets no callback for uncaptured errors, and the library's own ends the process when memory runs out.

typedef struct {
	uint32_t maxTextureDimension1D, maxTextureDimension2D, maxTextureDimension3D, maxTextureArrayLayers;
	uint32_t maxBindGroups, maxBindingsPerBindGroup;
	uint32_t maxDynamicUniformBuffersPerPipelineLayout, maxDynamicStorageBuffersPerPipelineLayout;
	uint32_t maxSampledTexturesPerShaderStage, maxSamplersPerShaderStage;
	uint32_t maxStorageBuffersPerShaderStage, maxStorageTexturesPerShaderStage, maxUniformBuffersPerShaderStage;
	uint64_t maxUniformBufferBindingSize, maxStorageBufferBindingSize;
	uint32_t minUniformBufferOffsetAlignment, minStorageBufferOffsetAlignment, maxVertexBuffers;
	uint64_t maxBufferSize;
	uint32_t maxVertexAttributes, maxVertexBufferArrayStride, maxInterStageShaderComponents;
	uint32_t maxInterStageShaderVariables, maxColorAttachments, maxColorAttachmentBytesPerSample;
	uint32_t maxComputeWorkgroupStorageSize, maxComputeInvocationsPerWorkgroup;
	uint32_t maxComputeWorkgroupSizeX, maxComputeWorkgroupSizeY, maxComputeWorkgroupSizeZ;
	uint32_t maxComputeWorkgroupsPerDimension;
} ft_limits;

typedef struct { void const *next; ft_limits limits; } ft_required_limits;

typedef struct {
	void const *next;
	char const *label;
	size_t features_count;
	void const *features;
	ft_required_limits const *limits;
	struct { void const *next; char const *label; } queue;
	void (*lost)(int reason, char const *message, void *userdata);
	void *lost_userdata;
} ft_device_descriptor;

extern void wgpuAdapterRequestDevice(void *adapter, ft_device_descriptor const *descriptor,
	void (*callback)(int status, void *device, char const *message, void *userdata), void *userdata);
extern void wgpuDeviceSetUncapturedErrorCallback(void *device,
	void (*callback)(int type, char const *message, void *userdata), void *userdata);
extern void wgpuBufferMapAsync(void *buffer, uint32_t mode, size_t offset, size_t size,
	void (*callback)(int status, void *userdata), void *userdata);

// A mailbox is written by the library's callbacks and read by the driver
// goroutine between its calls. Callbacks come in the middle of such calls only.
typedef struct {
	void *device;
	int mapped;        // 0 pending, else 1 + the map's status
	int errors, lost;
	char message[2048]; // of the first error since it was last read
} ft_mailbox;

static void ft_note(ft_mailbox *m, char const *message) {
	if (m->message[0] == 0) snprintf(m->message, sizeof m->message, "%s", message ? message : "unknown error");
}
static void ft_on_device(int status, void *device, char const *message, void *userdata) {
	ft_mailbox *m = userdata;
	if (status == 0) m->device = device; else ft_note(m, message);
}
static void ft_on_lost(int reason, char const *message, void *userdata) {
	ft_mailbox *m = userdata;
	m->lost = 1;
	ft_note(m, message);
}
static void ft_on_error(int type, char const *message, void *userdata) {
	ft_mailbox *m = userdata;
	m->errors++;
	if (type == 5) m->lost = 1; // WGPUErrorType_DeviceLost
	ft_note(m, message);
}
static void ft_on_map(int status, void *userdata) {
	ft_mailbox *m = userdata;
	m->mapped = 1 + status;
}

static void *ft_request_device(void *adapter, ft_limits const *limits, ft_mailbox *m) {
	ft_required_limits required = { NULL, *limits };
	ft_device_descriptor d;
	memset(&d, 0, sizeof d);
	d.limits = &required;
	d.lost = ft_on_lost;
	d.lost_userdata = m;
	m->device = NULL;
	wgpuAdapterRequestDevice(adapter, &d, ft_on_device, m);
	if (m->device) wgpuDeviceSetUncapturedErrorCallback(m->device, ft_on_error, m);
	return m->device;
}

static void ft_map(void *buffer, size_t size, ft_mailbox *m) {
	m->mapped = 0;
	wgpuBufferMapAsync(buffer, 1, 0, size, ft_on_map, m);
}

static void ft_limits_undefined(ft_limits *l) { memset(l, 0xff, sizeof *l); }
*/
import "C"

import (
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"foretoken/webgpu"
)

// mailbox receives the results of wgpu-native's callbacks. It lives in C memory for
// the life of the process: a callback may come as late as the library's exit.
type mailbox struct{ c *C.ft_mailbox }

func newMailbox() mailbox {
	return mailbox{(*C.ft_mailbox)(C.calloc(1, C.sizeof_ft_mailbox))}
}

// take returns the first uncaptured error since the last take, or nil.
func (m mailbox) take() error {
	if m.c.errors == 0 && m.c.lost == 0 {
		return nil
	}
	message := C.GoString(&m.c.message[0])
	m.c.errors = 0
	m.c.message[0] = 0
	if m.c.lost != 0 {
		return fmt.Errorf("%w: %s", webgpu.ErrDeviceLost, message)
	}
	return errors.New(message)
}

// mapRead starts to map a buffer's first size bytes.
func (m mailbox) mapRead(b *wgpu.Buffer, size int) error {
	ref, err := refOf(b)
	if err != nil {
		return err
	}
	C.ft_map(ref, C.size_t(size), m.c)
	return nil
}

// mapped reports whether the map that was started has ended, and how.
func (m mailbox) mapped() (bool, error) {
	switch m.c.mapped {
	case 0:
		return false, nil
	case 1:
		return true, nil
	}
	return true, fmt.Errorf("map failed with status %d", int(m.c.mapped)-1)
}

// requestDevice opens a device with limits above the default ones.
func (m mailbox) requestDevice(adapter *wgpu.Adapter, l webgpu.Limits) (*wgpu.Device, error) {
	ref, err := refOf(adapter)
	if err != nil {
		return nil, err
	}
	var c C.ft_limits
	C.ft_limits_undefined(&c)
	c.maxStorageBufferBindingSize = C.uint64_t(l.MaxBindingSize)
	c.maxBufferSize = C.uint64_t(l.MaxBufferSize)
	c.maxStorageBuffersPerShaderStage = C.uint32_t(l.MaxStorageBuffers)
	c.maxComputeWorkgroupStorageSize = C.uint32_t(l.MaxWorkgroupStorage)
	c.maxComputeInvocationsPerWorkgroup = C.uint32_t(l.MaxWorkgroupInvocations)
	c.maxComputeWorkgroupSizeX = C.uint32_t(l.MaxWorkgroupInvocations)
	c.maxComputeWorkgroupSizeY = C.uint32_t(l.MaxWorkgroupInvocations)
	c.maxComputeWorkgroupsPerDimension = C.uint32_t(l.MaxWorkgroupsPerDim)
	device := C.ft_request_device(ref, &c, m.c)
	if device == nil {
		return nil, fmt.Errorf("the adapter refused a device: %s", C.GoString(&m.c.message[0]))
	}
	out := &wgpu.Device{}
	if _, err := refOf(out); err != nil || unsafe.Sizeof(*out) != unsafe.Sizeof(device) {
		return nil, errors.New("the binding's Device is not the one this package was written for")
	}
	*(*unsafe.Pointer)(unsafe.Pointer(out)) = device
	return out, nil
}

// refOf returns the C handle inside one of the binding's objects.
func refOf(object any) (unsafe.Pointer, error) {
	f := reflect.ValueOf(object).Elem().FieldByName("ref")
	if f.Kind() != reflect.Pointer {
		return nil, fmt.Errorf("the binding's %T is not the one this package was written for", object)
	}
	return f.UnsafePointer(), nil
}
