package grammar

// Quoted returns a string as the grammars of schemas write it where they hold it to something.
func Quoted(s string) string { return `"` + escaped(s) + `"` }
