package arch

// Checkpoint maps a model type's config.json, as Hugging Face's libraries save it, to the metadata of a GGUF file.
// Model.Tensors lists the tensors.
type Checkpoint struct {
	Class        string            // the name in config.json's architectures
	Architecture string            // general.architecture
	Defaults     map[string]string // JSON values of fields that config.json may lack
	Numbers      map[string]string // the metadata fields that further fields become
	Ignored      []string          // fields that the architecture implies, whatever other architectures make of them
	Window       WindowRule
	StatesKV     bool // num_key_value_heads is stated; otherwise num_attention_heads is its default
	StatesHead   bool // head_dim is stated; otherwise hidden_size / num_attention_heads is its default
	Paired       bool // rows of queries and keys are rotated pairs, as in GGUF; otherwise halves
	PartialRope  bool // partial_rotary_factor may be below 1
	LongRope     bool // contexts beyond original_max_position_embeddings have other divisors
}

// WindowRule says how config.json states a sliding window.
type WindowRule int

const (
	NoWindow     WindowRule = iota // a sliding_window within the context is refused
	StatedWindow                   // sliding_window is there, null for none
	ListedWindow                   // sliding_window counts in the layers that layer_types lists
	UsedWindow                     // sliding_window counts if use_sliding_window is true, from max_window_layers on
)

// HeadCheckpoint maps the config.json of EAGLE-3 heads. Package convert reads the ignored fields.
var HeadCheckpoint = Checkpoint{Architecture: "eagle3",
	Ignored: []string{"draft_vocab_size", "target_hidden_size", "eagle_aux_hidden_state_layer_ids",
		"norm_before_residual", "norm_before_fc", "norm_output", "transformer_layer_config"},
	Defaults: map[string]string{"hidden_act": `"silu"`, "num_hidden_layers": "1", "max_position_embeddings": "2048"}}
