package lang

// Format is the language of a format of JSON Schema. It is false for a name that no draft has.
func (m *Maker) Format(name string) (l *Lang, known bool) { return nil, false }
