package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"foretoken/spec"

	"github.com/hack-pad/safejs"
)

// await waits for a promise. It must not be called on JavaScript's own call into Go, which would wait for itself.
func await(promise safejs.Value) (safejs.Value, error) {
	type outcome struct {
		value safejs.Value
		err   error
	}
	done := make(chan outcome, 1)
	resolved, err := safejs.FuncOf(func(_ safejs.Value, args []safejs.Value) any {
		v := safejs.Undefined()
		if len(args) > 0 {
			v = args[0]
		}
		done <- outcome{value: v}
		return nil
	})
	if err != nil {
		return safejs.Value{}, err
	}
	defer resolved.Release()
	rejected, err := safejs.FuncOf(func(_ safejs.Value, args []safejs.Value) any {
		done <- outcome{err: reason(args)}
		return nil
	})
	if err != nil {
		return safejs.Value{}, err
	}
	defer rejected.Release()
	if _, err := promise.Call("then", resolved, rejected); err != nil {
		return safejs.Value{}, err
	}
	o := <-done
	return o.value, o.err
}

// awaitCall calls a method that returns a promise and waits for it.
func awaitCall(v safejs.Value, method string, args ...any) (safejs.Value, error) {
	promise, err := v.Call(method, args...)
	if err != nil {
		return safejs.Value{}, err
	}
	return await(promise)
}

// reason turns a promise's rejection into an error, with its code where that is a string.
func reason(args []safejs.Value) error {
	if len(args) == 0 {
		return errors.New("rejected without a reason")
	}
	field := func(name string) (string, bool) {
		v, err := args[0].Get(name)
		if err != nil || v.Type() != safejs.TypeString {
			return "", false
		}
		s, err := v.String()
		return s, err == nil
	}
	message, ok := field("message")
	if !ok {
		message, _ = args[0].String()
	}
	code, _ := field("code")
	return &codedError{code, errors.New(message)}
}

// apiMethod is a method of the engine in Go.
type apiMethod = func(args []safejs.Value) (string, error)

// promised makes a function that runs work in a goroutine and returns a promise of its string. A panic rejects the
// promise; the engine stays alive.
func promised(work apiMethod) (safejs.Func, error) {
	global := safejs.Global()
	promise, err := global.Get("Promise")
	if err != nil {
		return safejs.Func{}, err
	}
	failure, err := global.Get("Error")
	if err != nil {
		return safejs.Func{}, err
	}
	return safejs.FuncOf(func(_ safejs.Value, args []safejs.Value) any {
		var executor safejs.Func
		executor, err := safejs.FuncOf(func(_ safejs.Value, settle []safejs.Value) any {
			go func() {
				defer executor.Release()
				result, err := guarded(work, args)
				if err == nil {
					_, _ = settle[0].Invoke(result) // a failure here has no receiver
					return
				}
				if e, madeErr := failure.New(messageOf(err)); madeErr == nil {
					_ = e.Set("code", codeOf(err)) // without a code the page calls it internal
					if field, ok := errors.AsType[*spec.FieldError](err); ok {
						_ = e.Set("param", field.Field)
					}
					_, _ = settle[1].Invoke(e)
				}
			}()
			return nil
		})
		if err != nil {
			return nil
		}
		p, err := promise.New(executor)
		if err != nil {
			return nil
		}
		return safejs.Unsafe(p)
	})
}

func guarded(work apiMethod, args []safejs.Value) (result string, err error) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(os.Stderr, "foretoken: %v\n%s\n", p, debug.Stack()) // the console's
			err = errors.New("foretoken: internal error; the console says where")
		}
	}()
	return work(args)
}

// text is argument i as a string.
func text(args []safejs.Value, i int) (string, error) {
	if i >= len(args) || args[i].Type() != safejs.TypeString {
		return "", fmt.Errorf("foretoken: argument %d must be a string", i+1)
	}
	return args[i].String()
}

func toJSON(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

// callback returns a function that calls argument i with a value as JSON, or does nothing if it is no function.
func callback(args []safejs.Value, i int) func(v any) {
	return func(v any) {
		if i < len(args) && args[i].Type() == safejs.TypeFunction {
			if s, err := toJSON(v); err == nil {
				_, _ = args[i].Invoke(s) // an exception of the page is its own problem
			}
		}
	}
}
