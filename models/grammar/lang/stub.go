package lang

import "errors"

// Pattern is the language of the strings in which a regular expression of ECMA-262 matches somewhere.
func (m *Maker) Pattern(source string) (*Lang, error) { return nil, errors.New("not yet") }

// Format is the language of a format of JSON Schema. It is false for a name that no draft has.
func (m *Maker) Format(name string) (l *Lang, known bool) { return nil, false }
