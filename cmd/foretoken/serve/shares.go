package serve

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// shares divides a bounded number of places among addresses. While some are free, an address takes as many as it asks
// for. When all are taken, a newcomer gets a place of the address that holds the most: one that waits for its client,
// else the latest. Addresses that hold equally many lose only places that have waited for the timeout.
type shares struct {
	limit   int
	timeout time.Duration

	mu     sync.Mutex
	held   map[string][]*place // by address, the oldest first
	places int
}

// place is one of the places of an address.
type place struct {
	address string
	lose    func()    // ends what holds the place, once another takes it
	waits   time.Time // since when it waits for its client; zero: it does not
}

// timeout limits how long a client may keep a place waiting that others need.
const timeout = time.Second

func newShares(limit int) *shares {
	return &shares{limit: limit, timeout: timeout, held: map[string][]*place{}}
}

// take gives an address a place that waits for its client, or nil if it holds its share already.
func (s *shares) take(address string, lose func()) *place {
	p := &place{address, lose, time.Now()}
	s.mu.Lock()
	var lost *place
	if s.places >= s.limit {
		if lost = s.victim(address); lost == nil {
			s.mu.Unlock()
			return nil
		}
		s.remove(lost)
	}
	s.held[address] = append(s.held[address], p)
	s.places++
	s.mu.Unlock()
	if lost != nil {
		lost.lose()
	}
	return p
}

// victim returns the place that a newcomer of an address gets.
func (s *shares) victim(address string) *place {
	most := 0
	for _, places := range s.held {
		most = max(most, len(places))
	}
	var waits, latest *place
	for _, places := range s.held {
		if len(places) < most {
			continue
		}
		latest = places[most-1]
		for _, p := range places {
			if !p.waits.IsZero() && (waits == nil || p.waits.Before(waits.waits)) {
				waits = p
			}
		}
	}
	unfair := most > len(s.held[address])+1
	switch {
	case waits != nil && (unfair || time.Since(waits.waits) >= s.timeout):
		return waits
	case unfair:
		return latest
	}
	return nil
}

// waiting notes since when a place waits for its client, or that it does not. Newcomers take waiting places first.
func (s *shares) waiting(p *place, waits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.waits = (time.Time{}); waits {
		p.waits = time.Now()
	}
}

// leave frees a place, unless another took it.
func (s *shares) leave(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(p)
}

func (s *shares) remove(p *place) {
	places := s.held[p.address]
	i := slices.Index(places, p) // bound: --queue
	if i < 0 {
		return
	}
	s.places--
	if s.held[p.address] = slices.Delete(places, i, i+1); len(places) == 1 {
		delete(s.held, p.address)
	}
}

// addressOf returns the address whose share a connection counts as. For IPv6 that is the network of 64 bits, because a
// host may take any address in its network.
func addressOf(remote string) string {
	a, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	ip := a.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	network, _ := ip.Prefix(64) // of 128 bits, so it never fails
	return network.String()
}
