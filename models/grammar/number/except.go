package number

// tree follows texts while they are the start of a value that is excepted; nil excepts none.
type tree []branch

type branch struct {
	next [point + 1]int32 // by symbol; 0 is off the tree, for the root is never reached again
	end  bool             // the text is an excepted value
	past bool             // the point has been read
}

// off is the node of a text that can become no excepted value any more.
const off = -1

func (t tree) root() int32 {
	if t == nil {
		return off
	}
	return 0
}

// add excepts a value. Zeros may follow its fraction, which may have no digits.
func (t tree) add(whole, fraction string) tree {
	if t == nil {
		t = tree{{}}
	}
	at := int32(0)
	for _, c := range []byte(whole + "." + fraction) {
		symbol := point
		if c != '.' {
			symbol = int(c - '0')
		}
		t[at].end = t[at].end || symbol == point && fraction == ""
		to := t[at].next[symbol]
		if to == 0 {
			to = int32(len(t))
			t[at].next[symbol] = to
			t = append(t, branch{past: t[at].past || symbol == point})
		}
		at = to
	}
	t[at].end = true
	return t
}

// close has zeros after the point change no value. Children come after their parents.
func (t tree) close() tree {
	for at := range t {
		if !t[at].end || !t[at].past {
			continue
		}
		to := t[at].next[0]
		if to == 0 {
			to = int32(len(t))
			t[at].next[0] = to
			t = append(t, branch{next: [point + 1]int32{to}, past: true})
		}
		t[to].end = true
	}
	return t
}

func (t tree) follow(at int32, symbol int) int32 {
	if at == off || t[at].next[symbol] == 0 {
		return off
	}
	return t[at].next[symbol]
}

func (t tree) ends(at int32) bool { return at != off && t[at].end }
