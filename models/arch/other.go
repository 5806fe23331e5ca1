package arch

import (
	"fmt"
	"strings"

	"foretoken/internal/quote"
	"foretoken/models/gguf"
)

// take names models that can be run.
const take = "take a model such as Qwen3, Llama 3.2 or SmolLM3, in Q4_K_M or Q8_0"

// other is a kind of file that is no decoder that can be run: the values of general.architecture, which may be another
// architecture's, those of general.type, fields and parts of tensors' names that only such files have, and what a
// message says.
type other struct {
	names, types, fields string
	says                 string
}

// others lists the kinds; the first that matches wins. Supported architectures are no longer looked up by name.
var others = []other{
	{types: "adapter", fields: "adapter.type adapter.lora.alpha",
		says: "this is a LoRA adapter, a change to a model and not a model: take the model with the adapter merged " +
			"into it"},
	{names: "clip", types: "mmproj", fields: "clip.has_vision_encoder clip.has_audio_encoder clip.projector_type",
		says: "this is the part of a model that reads images or sound (mmproj): take the file of the model itself, " +
			"which answers to text"},
	{types: "imatrix", fields: "imatrix.chunk_count imatrix.datasets",
		says: "this is an importance matrix, which helps to quantise a model: take a file of the model itself"},
	{names: "controlvector", fields: "controlvector.layer_count",
		says: "this is a control vector, which steers a model: take a file of the model itself"},
	{names: "eagle3",
		says: "this is an EAGLE-3 head, which drafts for one model: give it beside that model (--eagle3)"},
	{names: "gemma4-assistant dflash dspark eagle eagle2 medusa",
		says: "this is a drafter of a kind that cannot be run yet: take the model that it drafts for, without it"},
	{names: "bert nomic-bert nomic-bert-moe modern-bert neo-bert jina-bert-v2 jina-bert-v3 eurobert llama-embed " +
		"gemma-embedding t5encoder",
		says: "this is an embedding model of a kind that cannot be run yet: take Qwen3-Embedding for vectors of " +
			"texts; for answers " + take},
	{names: "t5", says: "this model encodes its whole input first, which cannot be run: " + take},
	{names: "llada llada-moe dream rnd1",
		says: "this model writes all words at once, by diffusion, which cannot be run: " + take},
	{names: "flux sd1 sdxl sd3 aura ltxv hyvid wan hidream cosmos lumina2 qwen_image pig z_image",
		says: "this model makes images or films: take a model of text"},
	{names: "whisper wavtokenizer-dec outetts parler kokoro dia csm voxtral",
		says: "this model is for speech or sound: take a model of text"},
	{names: "mllama cogvlm paddleocr",
		says: "this model reads images and cannot be run without that part: take Qwen3-VL, which is run as a model " +
			"of text"},
	{names: "gemma gemma2 gemma3 gemma3n gemma4", says: "Gemma cannot be run yet: " + take},
	{names: "qwen2moe qwen3moe qwen3vlmoe deepseek deepseek2 olmoe granitemoe dbrx phimoe gpt-oss llama4 glm4moe " +
		"dots1 ernie4_5-moe hunyuan-moe bailingmoe bailingmoe2 minimax-m2 grok arctic smallthinker exaone-moe afmoe " +
		"mimo2",
		says: "this model is a mixture of experts, which cannot be run yet: " + take},
	{names: "mamba mamba2 rwkv6 rwkv7 rwkv6qwen2 arwkv7 jamba falcon-h1 nemotron_h granitehybrid plamo2 lfm2 " +
		"lfm2moe qwen3next qwen35 qwen35moe kimi-linear",
		says: "this model keeps a recurrent state in some layers, which cannot be run yet: " + take},
}

// Unlike says what a file is that no decoder which can be run is in, and what to take instead; "" of any other file.
func Unlike(f *gguf.File) string {
	name, _ := f.StringOr("general.architecture", "")
	kind, _ := f.StringOr("general.type", "")
	model, _ := f.StringOr("tokenizer.ggml.model", "")
	for _, o := range others {
		if in(o.types, kind) || architectures[name] == nil && in(o.names, name) {
			return o.says
		}
		for field := range strings.FieldsSeq(o.fields) {
			if f.Has(field) {
				return o.says
			}
		}
	}
	switch {
	case len(f.Tensors) == 0 && f.Has("tokenizer.ggml.tokens"):
		return "the file holds a vocabulary and no weights: take a file of the model itself"
	case model == "none" && architectures[name] != nil:
		return "the file has no tokenizer: take one that was converted with the model's tokenizer"
	}
	return ""
}

func in(names, name string) bool {
	for n := range strings.FieldsSeq(names) {
		if n == name {
			return true
		}
	}
	return false
}

// unlikeHead is Unlike for a file that should be an EAGLE-3 head.
func unlikeHead(f *gguf.File) string {
	name, _ := f.StringOr("general.architecture", "")
	switch {
	case heads[name] != nil:
		return ""
	case architectures[name] != nil && Unlike(f) == "":
		return "this is a model and no EAGLE-3 head: give it as the target or the draft (--target, --draft)"
	}
	return Unlike(f)
}

// unknown says which architectures have names like that of the file's.
func unknown(name string, known []string) string {
	return fmt.Sprintf("general.architecture is %s, which cannot be run; the nearest of %d that can are %s",
		quote.Text(name), len(known), strings.Join(quote.Nearest(name, known, 5), ", "))
}
