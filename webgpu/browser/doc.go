// Package browser is the webgpu.Device of web pages: WebGPU through JavaScript, from Go compiled to WebAssembly.
//
// Crossing from WebAssembly into JavaScript costs microseconds and a forward pass has hundreds of commands, so the
// work is shared out: Go decides and checks, and the script replay.js, which must be loaded into the worker before
// Open is called, holds the WebGPU objects and replays recorded programs. A Run is one copy of bytes and one call:
//
//	payload of the writes | commands
//
// where the commands are 32-bit words, little-endian: the counts of writes, programs and reads, then for each write
// the buffer, its offset, the length and where in the payload it starts; for each program its number; for each read
// the buffer, its offset and the length. What the reads bring back comes the same way, as one array of bytes.
//
// All other calls are requests with an answer: they are rare, so they go
// through safejs, where every step returns an error and none panics.
package browser
