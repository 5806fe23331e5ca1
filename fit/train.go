//go:build !js

package fit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/gomlx/gomlx/backends"
	"github.com/gomlx/gomlx/backends/simplego"
	"github.com/gomlx/gomlx/pkg/core/dtypes"
	"github.com/gomlx/gomlx/pkg/core/graph"
	"github.com/gomlx/gomlx/pkg/core/tensors"
	mlcontext "github.com/gomlx/gomlx/pkg/ml/context"
	"github.com/gomlx/gomlx/pkg/ml/train/optimizers"
	"github.com/gomlx/gomlx/pkg/ml/train/optimizers/cosineschedule"
)

// node is a value of a training graph.
type node = graph.Node

// matrix is a parameter: values row by row, one or two dimensions.
type matrix struct {
	values []float32
	dims   []int
}

// gaussian draws a parameter with variance gain/fanIn.
func gaussian(rng *rand.Rand, gain float64, fanIn int, dims ...int) matrix {
	m := zeros(dims...)
	for i := range m.values {
		m.values[i] = float32(rng.NormFloat64() * math.Sqrt(gain/float64(fanIn)))
	}
	return m
}

// zeros returns a parameter initialised to 0.
func zeros(dims ...int) matrix {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return matrix{make([]float32, n), dims}
}

// Examples are the training data of a binary classifier. yes and no weight the two outcomes: a label of 1 has no =
// 0, and a soft label has both.
type Examples struct {
	inputs  []float32 // (n, width)
	width   int
	yes, no []float32 // (n)
}

// Len returns the number of examples.
func (e *Examples) Len() int { return len(e.yes) }

func (e *Examples) add(inputs []float32, yes, no float32) {
	e.inputs, e.yes, e.no = append(e.inputs, inputs...), append(e.yes, yes), append(e.no, no)
}

// training configures the training of a classifier.
type training struct {
	params []matrix
	// logits returns the log-odds (n) of inputs (n, width).
	logits func(params []*node, inputs *node) *node
	rate   float64 // of Adam
	cosine bool    // the rate falls to 0 along half a cosine
	epochs int
	batch  int
	seed   uint64 // of the shuffles
}

// backend is GoMLX's pure-Go backend, which needs no XLA and no cgo. Operations run one after the other: in
// parallel, one may write in place what another still reads (v0.24.1, found by the race detector).
var backend = sync.OnceValues(func() (backends.Backend, error) { return simplego.New("ops_sequential") })

// run minimises the weighted cross-entropy Σ(yes·-ln p + no·-ln(1-p)) / Σ(yes+no) over batches, and calls after
// with the parameters and the mean loss of each epoch. Equal settings give equal parameters: nothing depends on
// time or scheduling.
func (t *training) run(ctx context.Context, e *Examples, after func(epoch int, loss float64,
	params []matrix) error) (err error) {
	if e.Len() == 0 {
		return errors.New("there is nothing to train on")
	}
	be, err := backend()
	if err != nil {
		return fmt.Errorf("training: %w", err)
	}
	// GoMLX's graph functions panic on mismatched shapes.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("training: %v", r)
		}
	}()
	vars := make([]*mlcontext.Variable, len(t.params))
	store := mlcontext.New()
	for i, p := range t.params {
		vars[i] = store.VariableWithValue(fmt.Sprintf("p%d", i),
			tensors.FromFlatDataAndDimensions(append([]float32(nil), p.values...), p.dims...))
	}
	steps := (e.Len() + t.batch - 1) / t.batch
	adam := optimizers.Adam().LearningRate(t.rate).Done()
	step, err := mlcontext.NewExec(be, store, func(c *mlcontext.Context, inputs, yes, no *node) *node {
		g := inputs.Graph()
		c.SetTraining(g, true)
		if t.cosine {
			cosineschedule.New(c, g, dtypes.Float32).PeriodInSteps(steps * t.epochs).LearningRate(t.rate).Done()
		}
		nodes := make([]*node, len(vars))
		for i, v := range vars {
			nodes[i] = v.ValueGraph(g)
		}
		z := t.logits(nodes, inputs)
		// -ln p = softplus(-z) and -ln(1-p) = softplus(z) = z + softplus(-z)
		soft := graph.Add(graph.MaxScalar(graph.Neg(z), 0), graph.Log1P(graph.Exp(graph.Neg(graph.Abs(z)))))
		weights := graph.Add(yes, no)
		loss := graph.ReduceAllSum(graph.Add(graph.Mul(weights, soft), graph.Mul(no, z)))
		loss = graph.Div(loss, graph.MaxScalar(graph.ReduceAllSum(weights), 1e-6))
		adam.UpdateGraph(c, g, loss)
		return loss
	})
	if err != nil {
		return fmt.Errorf("training: %w", err)
	}
	defer step.Finalize()
	order := make([]int, e.Len())
	for i := range order {
		order[i] = i
	}
	rng := rand.New(rand.NewPCG(t.seed, 1))
	for epoch := range t.epochs {
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		sum := 0.0
		for s := range steps {
			if err := ctx.Err(); err != nil {
				return err
			}
			in, yes, no := e.batch(order[s*t.batch:min((s+1)*t.batch, len(order))], t.batch)
			out, err := step.Exec(in, yes, no)
			if err != nil {
				return fmt.Errorf("training: %w", err)
			}
			sum += float64(tensors.ToScalar[float32](out[0]))
		}
		params := make([]matrix, len(vars))
		for i, v := range vars {
			value, err := v.Value()
			if err != nil {
				return fmt.Errorf("training: %w", err)
			}
			params[i] = matrix{tensors.MustCopyFlatData[float32](value), t.params[i].dims}
		}
		if err := after(epoch, sum/float64(steps), params); err != nil {
			return err
		}
	}
	return nil
}

// batch gathers examples and pads them with rows of weight 0: a graph is compiled for one shape.
func (e *Examples) batch(rows []int, size int) (in, yes, no *tensors.Tensor) {
	x, y, n := make([]float32, size*e.width), make([]float32, size), make([]float32, size)
	for i, r := range rows {
		copy(x[i*e.width:(i+1)*e.width], e.inputs[r*e.width:(r+1)*e.width])
		y[i], n[i] = e.yes[r], e.no[r]
	}
	return tensors.FromFlatDataAndDimensions(x, size, e.width), tensors.FromFlatDataAndDimensions(y,
		size), tensors.FromFlatDataAndDimensions(n, size)
}

// affine returns x·w + b for inputs (n, in), w (in, out) and b (out).
func affine(x, w, b *node) *node {
	return graph.Add(graph.Dot(x, w), graph.InsertAxes(b, 0))
}

// flat drops the last axis, of size 1.
func flat(x *node) *node { return graph.Reshape(x, x.Shape().Dimensions[0]) }

// Scored is a held-out example with its estimate and outcome. Weight is the number of examples it represents.
type Scored struct {
	P      float64
	Label  float64 // 0 or 1, or the probability of 1
	Weight float64
}

// AUC is the area under the ROC curve, ties counted half: the probability that an accepted example scores higher
// than a rejected one.
func AUC(all []Scored) float64 {
	sorted := slices.SortedStableFunc(slices.Values(all), func(a, b Scored) int { return cmp.Compare(a.P, b.P) })
	// weight of rejected examples so far; weight of ordered pairs; weight of accepted examples
	below, area, yes := 0.0, 0.0, 0.0
	for i := 0; i < len(sorted); {
		tie, tieNo := 0.0, 0.0
		p := sorted[i].P
		for ; i < len(sorted) && sorted[i].P == p; i++ {
			tie += sorted[i].Weight * sorted[i].Label
			tieNo += sorted[i].Weight * (1 - sorted[i].Label)
		}
		area += tie * (below + tieNo/2)
		below += tieNo
		yes += tie
	}
	if yes == 0 || below == 0 {
		return math.NaN()
	}
	return area / (yes * below)
}
