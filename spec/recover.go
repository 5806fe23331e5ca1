package spec

import "context"

// retry does a step. Where it fails and Options.Recover replaces the models, it goes on with again, until that is
// done or nothing is recovered any more.
func (r *request) retry(ctx context.Context, step, again func(context.Context) error) error {
	err := step(ctx)
	for err != nil && r.opts.Recover != nil && ctx.Err() == nil {
		if failed := r.opts.Recover(ctx, err); failed != nil {
			return failed
		}
		r.stats.Recoveries++
		r.charge()
		err = again(ctx)
	}
	return err
}

// charge counts the time since the mark as lost, so that neither speeds nor what policies learn of passes has it.
func (r *request) charge() {
	now := r.parts.Clock()
	r.stats.Recovery += now.Sub(r.mark)
	r.mark = now
}

// reattempt is attempt with models whose caches are empty.
func (r *request) reattempt(ctx context.Context) error {
	if err := r.refill(ctx); err != nil {
		return err
	}
	r.charge()
	return r.attempt(ctx)
}

// refill prefills the committed tokens again. Bits do not depend on how tokens are batched, so the caches end up as
// they were.
func (r *request) refill(ctx context.Context) error {
	r.target.Reset()
	return r.fill(ctx, r.seq[:len(r.seq)-1], 0)
}
