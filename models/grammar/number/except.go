package number

// tree follows texts while they are the start of a value that is excepted; nil excepts none.
type tree struct {
	next [][point + 1]int32 // by symbol; 0 is off the tree, for the root is never reached again
	end  []bool             // the text is an excepted value
	past []bool             // the point has been read
}

// off is the node of a text that can become no excepted value any more.
const off = -1

func (t *tree) root() int32 {
	if t == nil {
		return off
	}
	return 0
}

// add excepts the value whole.fraction.
func (t *tree) add(whole, fraction string) {
	at := int32(0)
	for i := range len(whole) {
		at = t.child(at, int(whole[i]-'0'))
	}
	if fraction == "" {
		t.end[at] = true
	}
	at = t.child(at, point) // zeros may follow
	for i := range len(fraction) {
		at = t.child(at, int(fraction[i]-'0'))
	}
	t.end[at] = true
}

func (t *tree) child(at int32, symbol int) int32 {
	to := t.next[at][symbol]
	if to == 0 {
		to = t.grow(t.past[at] || symbol == point)
		t.next[at][symbol] = to
	}
	return to
}

func (t *tree) grow(past bool) int32 {
	t.next, t.end, t.past = append(t.next, [point + 1]int32{}), append(t.end, false), append(t.past, past)
	return int32(len(t.next) - 1)
}

// close has zeros after the point change no value. Children come after their parents.
func (t *tree) close() {
	for at := range t.next {
		if !t.end[at] || !t.past[at] {
			continue
		}
		to := t.next[at][0]
		if to == 0 {
			to = t.grow(true)
			t.next[at][0], t.next[to][0] = to, to
		}
		t.end[to] = true
	}
}

func (t *tree) follow(at int32, symbol int) int32 {
	if at == off || t.next[at][symbol] == 0 {
		return off
	}
	return t.next[at][symbol]
}

func (t *tree) ends(at int32) bool { return at != off && t.end[at] }
