package main

import (
	"foretoken/spec"

	"github.com/hack-pad/safejs"
)

// process has a method's third argument answer as the request's logits processor, if the page has one: texts as JSON
// lists of tokens → promise of a JSON list of objects, by token what is added to its logit.
func (r *request) process(args []safejs.Value) {
	if !r.Asks || len(args) < 3 {
		return
	}
	r.LogitsProcessor = func(texts [][]int32) ([][]spec.Bias, error) {
		question, err := toJSON(texts)
		if err != nil {
			return nil, err
		}
		promise, err := args[2].Invoke(question)
		if err != nil {
			return nil, err
		}
		value, err := await(promise)
		if err != nil {
			return nil, err
		}
		answer, err := value.String()
		if err != nil {
			return nil, err
		}
		return readBiases([]byte(answer))
	}
}
