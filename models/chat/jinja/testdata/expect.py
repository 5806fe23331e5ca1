"""Writes cases.json: what Python's jinja2 makes of the templates below, with the settings of Transformers.

Usage: python3 expect.py > cases.json   (jinja2 3.1)
A case whose "want" is missing is one that jinja2 refuses.
"""
import datetime
import json
import sys

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2026, 3, 7, 5, 4, 9)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(line)

    def _run(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
env.filters["tojson"] = tojson
env.filters["from_json"] = json.loads
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = lambda format: NOW.strftime(format)

VARS = {
    "items": ["x", "y", "z"], "s": "abcdef", "u": "héllo wörld 🚀", "n": 7, "neg": -7, "zero": 0, "f": 2.5, "t": True,
    "none_": None, "empty": "", "d": {"b": 2, "a": 1, "items": [1]},
    "nested": [
    {"r": "user", "c": "hi", "f": {"n": 3}}, {"r": "tool", "c": "", "f": {"n": 1}},
    {"r": "user", "c": "yo", "f": {"n": 2}},
    ],
    "big": [9007199254740993, 9223372036854775808, -18446744073709551617, 123456789012345678901234567890],
    "exact": [0.1, 1.0, 1e16, -2.50, 1e-7, 123456789.125, -0.0, 1E5],
    "nums": [3, 1, 2], "words": ["b", "A", "c", "a"], "lines": "one\n two\n\nthree", "quote": "it's \"q\" \\ \n\t\x01é",
}

EXPRESSIONS = r"""
big ¦ big | tojson ¦ big[1] ¦ -big[1] ¦ big[2] | abs ¦ big[3] | string ¦ big[3] | int ¦ big[2] is integer
big[2] is float ¦ big[2] is number
big[2] is string ¦ big[1] > 5 ¦ big[2] < big[1] ¦ big[1] == big[1] ¦ big[1] == big[3]
big | length ¦ big[1] in big ¦ 'n' ~ big[1] ¦ big[1] / 2
big | tojson(indent=2) ¦ 'x' if big[3] else 'y' ¦ {big[3]: 1} ¦ big | sort
exact ¦ exact | tojson ¦ exact[1] is float ¦ exact | map('string') | join(' ') ¦ exact | sum
s[1:] ¦ s[:2] ¦ s[:-1] ¦ s[1:-1] ¦ s[-2:] ¦ s[:] ¦ s[4:2] ¦ s[10:] ¦ s[::-1] ¦ s[::2] ¦ s[4:1:-1] ¦ s[-1] ¦ s[0]
u[1] ¦ u[::-1] ¦ u[1:4] ¦ s[-100:2] ¦ items[::-1] ¦ items[1:] ¦ items[:-1] ¦ items[-1] ¦ items[5] is defined
items[-1:] ¦ items[0:2][1] ¦ range(10)[2:5] | list ¦ range(10)[::-3] | list ¦ range(9, 0, -2)[1]
3 in range(0, 10, 3) ¦ (1,2,3)[1:] ¦ items[::-2] ¦ nope is defined ¦ nope is not defined ¦ nope ¦ nope or 'fb'
s or 'fb' ¦ zero or 'fb' ¦ s and 'last' ¦ '' and 'never' ¦ not nope ¦ not s ¦ nope is none ¦ none_ is none
none_ is not none ¦ nope == nope ¦ nope | length ¦ nope | default('x') ¦ empty | default('x', true) ¦ none_ | d('x')
none_ | default('x', boolean=True) ¦ d.nope is defined ¦ d['nope'] is undefined ¦ d.items is callable ¦ d['items']
d.a ¦ d['a'] ¦ d.get('a') ¦ d.get('zz', 5) ¦ d.get('zz') is none ¦ d.keys() | list ¦ d.values() | list
d.items() | list ¦ 'a' in d ¦ 'zz' not in d ¦ d ¦ d|length ¦ 7 % 3 ¦ -7 % 3 ¦ 7 // 2 ¦ -7 // 2 ¦ 2 - 5 ¦ 3 * 4 ¦ -1
10 - -2 ¦ 2 ** 10 ¦ 2 ** -1 ¦ 7 / 2 ¦ 6 / 2 ¦ 7.5 // 2 ¦ -7.5 % 2 ¦ 1e3 ¦ 1e16 ¦ 1e15 ¦ 1.5e-7 ¦ 0.1 + 0.2
100000000000000000000.0 ¦ 1_000 ¦ 0x1F ¦ 2 ** 3 ** 2 ¦ -2 ** 2 ¦ 1 + true ¦ 'a' + 'b' ¦ 'a' ~ 1 ~ none_ ~ 2.0
'ab' * 3 ¦ 3 * 'ab' ¦ [1] * 3 ¦ [1] + [2] ¦ (1,) + (2,) ¦ (1,) ¦ () ¦ [] ¦ {} ¦ {'a': 1, 'b': [1, 'x', none]} ¦ 1, 2
1 < 2 < 3 ¦ 1 < 3 < 2 ¦ 'a' < 'b' ¦ [1,2] < [1,3] ¦ 1 == 1.0 ¦ 1 == true ¦ '1' == 1 ¦ [1] == [1] ¦ [1] == (1,)
{'a':1} == {'a':1} ¦ none == false ¦ 1 != 2 ¦ 2 >= 2 ¦ 2 <= 1 ¦ 'b' in s ¦ 'zz' in s ¦ 'x' in items ¦ 3 in nums
3 not in nums ¦ not 3 in nums ¦ 5 in range(10) ¦ 'c' if n > 5 else 'e' ¦ 'c' if n < 5 ¦ ('c' if n < 5) is defined
n is number ¦ s is string ¦ d is mapping ¦ items is iterable ¦ items is sequence ¦ s is iterable ¦ n is integer
f is float ¦ t is boolean ¦ t is true ¦ none_ is false ¦ zero is false ¦ n is odd ¦ n is even ¦ n is divisibleby 7
n is divisibleby(2) ¦ n is eq 7 ¦ n is gt(3) ¦ 'x' is in items ¦ s is lower ¦ s is upper ¦ range is callable
n is sameas 7 ¦ t is number ¦ s is sequence ¦ d is iterable ¦ d is sequence ¦ n is iterable
s is string and n is number ¦ s is defined and s ¦ n is not string and not n is string ¦ s.upper() ¦ 'Ab cD'.lower()
'ab cd'.title() ¦ 'they\'re x1y'.title() ¦ 'aBc'.capitalize() ¦ ' a b '.strip() ¦ ' a b '.lstrip() ~ '|'
' a b '.rstrip() ~ '|' ¦ 'xxaxx'.strip('x') ¦ '\n\na\n'.strip('\n') ¦ 'abcabc'.rstrip('cb') ¦ 'a,b,c'.split(',')
'a,b,c'.split(',', 1) ¦ ' a  b c '.split() ¦ ' a  b c '.split(none, 1) ¦ 'a,b,c'.rsplit(',', 1)
' a  b c '.rsplit(none, 1) ¦ 'a<t>b<t>c'.split('<t>')[-1] ¦ ''.split(',') ¦ ''.split() ¦ 'abc'.split('abc')
'a\nb\r\nc'.splitlines() ¦ s.startswith('ab') ¦ s.startswith('bc', 1) ¦ s.endswith('ef') ¦ s.startswith(('x','ab'))
s.endswith('f', 0, 3) ¦ s.replace('c', 'ZZ') ¦ 'aaa'.replace('a', 'b', 2) ¦ s.find('d') ¦ s.find('zz') ¦ u.find('w')
s.rfind('a') ¦ s.index('c') ¦ 'aXbXc'.count('X') ¦ 'a.b.c'.partition('.') ¦ 'a.b.c'.rpartition('.')
'abc'.partition('x') ¦ '-'.join(items) ¦ '12'.isdigit() ¦ 'ab1'.isalnum() ¦ 'ab'.isalpha() ¦ ' '.isspace()
'abc'.removeprefix('a') ¦ 'abc'.removesuffix('bc') ¦ 'AB'.isupper() ¦ 'ab'.islower() ¦ '{} and {}'.format('a', 1)
'{0}{1}{0}'.format('a', 'b') ¦ '{x}'.format(x=3) ¦ '{{}}'.format() ¦ s | upper ¦ s | length ¦ items | length
u | length ¦ items | join ¦ items | join(', ') ¦ nums | sort | join(',') ¦ nums | sort(reverse=true) ¦ words | sort
words | sort(case_sensitive=true) ¦ nested | sort(attribute='f.n') | map(attribute='c') | list
nested | map(attribute='f.n') | list ¦ nested | map(attribute='zz', default='q') | list ¦ items | map('upper') | list
items | map('replace', 'x', 'w') | join ¦ nested | selectattr('r', 'equalto', 'user') | list | length
nested | rejectattr('r', 'equalto', 'user') | map(attribute='r') | list ¦ nested | selectattr('c') | list | length
nums | select('odd') | list ¦ nums | reject('gt', 1) | list ¦ ['', 'a', none] | select | list ¦ items | first
items | last ¦ [] | first is defined ¦ s | first ¦ s | last ¦ items | reverse | list ¦ s | reverse ¦ nums | sum
nested | sum(attribute='f.n') ¦ nums | max ¦ nums | min ¦ words | min ¦ words | max ¦ [1, 1, 2] | unique | list
['a','A'] | unique | list ¦ lines | indent ¦ lines | indent(2, true) ¦ lines | indent(2, blank=true)
lines | indent('--') ¦ '  x ' | trim ¦ 'xxaxx' | trim('x') ¦ 'a b' | replace('a', 'c') ¦ '3' | int + 1 ¦ 'x' | int
'x' | int(9) ¦ '1.5' | float ¦ '2.7' | int ¦ -3 | abs ¦ 'ab cd' | title ¦ 'aBC' | capitalize ¦ 5 | string ~ '!'
'x' | list ¦ 'ff' | int(base=16) ¦ d | dictsort ¦ d | items | list ¦ d | length ¦ '<a&b>' | e ¦ d | attr('a')
('{"b": [1, 2.5, true, null, {}], "a": "é\\u00e9"}' | from_json) ¦ ('[' ~ s ~ ']') | from_json ¦ '1 2' | from_json
'"x"' | from_json | upper ¦ 5 | from_json ¦ d | tojson | from_json == d ¦ '' | from_json
d | tojson ¦ quote | tojson ¦ {'b': [1, 2.5, true, none, {}], 'a': []} | tojson
{'b': [1, {'x': []}], 'a': {}} | tojson(indent=2) ¦ {'b': 1, 'a': 'é🚀'} | tojson(ensure_ascii=true)
{'b': 1, 'a': 2} | tojson(sort_keys=true) ¦ {'b': 1, 'a': [1,2]} | tojson(separators=(',', ':')) ¦ (1, 2) | tojson
'a\x7f\u2028' | tojson ¦ {1: 2, none: 3, true: 4, 1.5: 5} | tojson ¦ [1e16, 1.0, 1e-7] | tojson ¦ d | tojson(indent=0)
nested | tojson(indent=4) ¦ '<>&\'' | tojson ¦ quote ¦ [quote] ¦ ['a\'b', 'a"b', '\x00\x7f', 'é\u200b🚀', '\'"']
[1.0, true, none, 1e100] ¦ {'a': 'b'} ¦ range(0, 10, 3) | list ¦ range(5, 0, -2) | list ¦ range(0) | list
range(2, 5) | length ¦ 'a' 'b' ¦ "dq\"x" ¦ '\d' ¦ '\u00e9\x41\101' ¦ dict(a=1, b=2) ¦ namespace(a=1).a
strftime_now('%d %b %Y') ¦ strftime_now('%Y-%m-%d %H:%M:%S %A %B %j %y %I %p') ¦ nested[0].f.n + nested[0]['f']['n']
nested.0.c ¦ nested[0]['c'] ¦ (nested|first).c ¦ 1 if nope else 2 if none_ else 3 ¦ [x for x in items] ¦ s.nope
s.nope.x ¦ nope.x ¦ nope['x'] ¦ nope + 1 ¦ 1 + 'a' ¦ 'a' + 1 ¦ none + 'a' ¦ s | nosuch ¦ s is nosuch ¦ nope() ¦ s()
1 / 0 ¦ 1 // 0 ¦ 1 % 0 ¦ items.append(1) ¦ d.update({}) ¦ items.pop() ¦ -'a' ¦ 'a' < 1 ¦ none < 1 ¦ 1 in 5
raise_exception('no') ¦ s[1:2:0] ¦ s['a':] ¦ nope | tojson ¦ {[]: 1} ¦ '%d' % 'x' ¦ '%s %s' % 'x'
namespace() | tojson ¦ strftime_now() ¦ d.nope.deeper ¦ 5 | length ¦ none_ | length ¦ nums.0.x.y ¦ 'x'.join([1])
'a'.split('') ¦ items | join(attribute='x') ¦ s.zz() ¦ 2.5 is even ¦ 3.0 is odd ¦ none_ | map('upper') | list
zero | select | list ¦ n[1:] ¦ d[::-1] ¦ '' % 1 ¦ nope | int ¦ nope | float ¦ nope[1:] ¦ 5 | truncate ¦ -s | length
not ¦ 1 + ¦ (1 ¦ [1, ¦ {'a' ¦ {'a': ¦ 'abc ¦ 1 2 ¦ s. ¦ s[ ¦ f( ¦ f(a=1, 2) ¦ is ¦ a b ¦ a is ¦ 1 ++ ¦ {{ ¦ }} ¦ % ¦ @
a := 1 ¦ lambda: 1 ¦ a; b ¦ a ! b
""".strip().split("\n")

BLOCKS = [
    "{% for i in items %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.revindex }}"
      "{{ loop.revindex0 }}{{ loop.length }}{{ i }};{% endfor %}",
    "{% for i in items %}{{ loop.previtem }}-{{ loop.nextitem }}-;{% endfor %}",
    "{% for i in [] %}x{% else %}none{% endfor %}", "{% for i in nope %}x{% else %}none{% endfor %}",
    "{% for i in none_ %}x{% endfor %}", "{% for i in 5 %}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}",
    "{% for k, v in d|dictsort %}{{ k }}{% endfor %}", "{% for a, b in [1] %}{% endfor %}",
    "{% for a, b in [(1,2),(3,4)] %}{{ a+b }}{% endfor %}", "{% for (a, b) in [(1,2)] %}{{ a }}{{ b }}{% endfor %}",
    "{% for i in nums if i > 1 %}{{ loop.index }}/{{ loop.length }}:{{ i }} {% endfor %}",
    "{% for i in nums if i > 5 %}x{% else %}e{% endfor %}",
    "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}"
      "{% endfor %}",
    "{% for i in items %}{{ loop(i) }}{% endfor %}",
    "{% for i in items %}{% for j in nums %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{{ loop is defined }}",
    "{% set x = 1 %}{% for i in items %}{{ x }}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}",
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% set ns = namespace(n=0) %}{% for i in items %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
    "{% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}{{ ns.b is defined }}", "{% set d.x = 1 %}",
    "{% set nope.x = 1 %}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a = 1, 2 %}{{ a }}", "{% set x %}b{{ n }}c{% endset %}{{ x }}",
    "{% set x | upper | trim %} b{{ s }} {% endset %}{{ x }}", "{% set (a, b) = (1, 2) %}{{ b }}",
    "{% if zero %}a{% elif empty %}b{% elif n == 7 %}c{% else %}d{% endif %}",
    "{% if not (a and b) or c %}y{% endif %}", "{% if a %}{% endif %}z",
    "{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}{{ m(1, c=5) }}{{ m(1, 2, 3) }}{{ m() }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, k=3) }}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{% endmacro %}{{ m(z=2) }}",
    "{% macro m(a) %}{{ n }}{{ x }}{% endmacro %}{% set x = 5 %}{{ m(1) }}",
    "{% macro f(n) %}{{ n }}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
    "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(4) }}",
    "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}in{{ s }}{% endcall %}",
    "{% macro m() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b) m() %}{{ a }}+{{ b }}{% endcall %}",
    "{% filter upper %}a{{ s }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}aac{% endfilter %}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}",
    "{% with %}{% set q = 1 %}{% endwith %}{{ q is defined }}", "{% generation %}x{{ s }}{% endgeneration %}",
    "{% raw %}{{ a }}{% b %}{# c #}{% endraw %}", "{%- raw -%} {{ a }} {%- endraw -%} z",
    "{% raw %}\n x {% endraw %}\ny", "a {# c {{ x }} #} b", "a {#- c -#} b", "{# c #}\nb", "a\n   {# c #}\nb", "{#-#}x",
    "{##}x", "{#x",
    "a\n  {% if true %}\n  b\n  {% endif %}\nc", "a\n  {%- if true %}\n  b\n  {%- endif %}\nc",
    "a\n  {%+ if true %}\n  b\n  {% endif +%}\nc", "a\n  {% if true -%}\n  b\n  {% endif -%}\n\n c",
    "a  {% if true %}  b  {% endif %}  c\n", "  {{ s }}\n  {{- s -}}  \n  z", "\n\n{% if true %}\n\nx{% endif %}\n\n",
    "x\n", "x\n\n", "x\r\ny\rz", "   {% set a = 1 %}   {% set b = 2 %}\n   z",
    "{% set a = 1 %}\n   {% set b = 2 %}\n{{ a }}", "{{ s }}\n{{ s }}\n", "{{ s }}{% if true %}\nq{% endif %}\n",
    "{{ s -}}\n  {% if true %}\nq{% endif %}", "\t{% if true %}\tx\n\t{% endif %}y", "{%if true%}a{%endif%}",
    "{{'}}'}}{{ '%}' }}{{ {'a': {'b': 1}}['a'] }}", "{{ {} }}", "{{ - 1 }}", "{{+1}}", "{{-1}}",
    "{%- set x = -1 -%} {{ x }}", "a {{- 1 }} b {{ 2 -}} c", "{% if true %}{% endif %}   \n  x", "é {{ u }} ü",
    "{ {x} } {", "{", "a{", "{{", "{%", "{% %}", "{% if %}", "{% if true %}", "{% endif %}", "{% else %}", "{% for %}",
    "{% for i %}{% endfor %}", "{% for i in %}{% endfor %}", "{% for 1 in items %}{% endfor %}", "{% nosuch %}",
    "{% break %}", "{% set %}", "{% set x %}", "{% set 1 = 2 %}", "{% set true = 2 %}", "{% macro %}{% endmacro %}",
    "{% macro m(a=1, b) %}{% endmacro %}", "{% for i in items %}{% endif %}", "{% raw %}x",
    "{% if true %}{% else %}{% else %}{% endif %}", "{% filter nosuch %}{% endfilter %}", "{{ x is y is z }}",
    "{% for i in items %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "{% include 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}", "{% extends 'x' %}",
    "{% set j = joiner(',') %}{% for i in items %}{{ j() }}{{ i }}{% endfor %}",
    "{% for i in items %}{% set _ = i %}{% endfor %}{{ _ is defined }}",
    "{% for x in items %}{{ x }}{% endfor %}{{ x is defined }}", "{{ items | map('nosuch') | list }}",
    "{% set items = items[1:] %}{{ items }}",
    "{%- for message in nested[::-1] %}{{ (nested|length - 1) - loop.index0 }}{{ message.r }}{% endfor %}",
    "{{ 'a' if true }}{{ 'b' if false }}c", "{{ 1 if false else 2, 3 }}", "{{ range(3) | map('string') | join }}",
    "{% if s is defined and s is string and 'b' in s and not (n < 3 or n > 9) %}ok{% endif %}",
    "{{ (1 + 2) * 3 ~ 'x' }}", "{{ 1 + 2 ~ 3 * 4 }}", "{{ 'a' ~ 'b' | upper }}", "{{ -7 | abs }}",
    "{{ (1, 2) | join('-') }}", "{{ s|upper|lower|length }}", "{{ not true and false }}", "{{ 1 == 1 and 2 == 2 }}",
    "{{ 5 is odd and 4 is even }}", "{{ n is divisibleby 7 and true }}", "{{ 'x' is in ['x'] or false }}",
    "{{ nope is defined or s }}",
    "{{ s.upper().lower()[1:3].title() }}", "{{ d['a'] + d.b }}", "{{ [[1, 2], [3]][0][1] }}", "{{ {'a': 1}.a }}",
    "{{ ('x' ~ s)[0] }}", "{{ [1, 2,] }}{{ {'a': 1,} }}{{ (1,) }}", "{% set x = 'a' ~\n 'b' %}{{ x }}",
    "{{ raise_exception('roles must\nalternate') }}",
]


def main():
    cases = []
    templates = list(BLOCKS)
    for line in EXPRESSIONS:
        for part in line.split(" ¦ "):
            templates.append("{{ " + part + " }}")
    for source in templates:
        case = {"template": source}
        try:
            case["want"] = env.from_string(source).render(**VARS)
        except Exception as e:  # refused: TemplateError, TypeError, …
            case["error"] = f"{type(e).__name__}: {e}".split("\n")[0][:120]
        cases.append(case)
    print('{"vars": ' + json.dumps(VARS, ensure_ascii=False) + ',\n"cases": [')
    print(",\n".join(json.dumps(c, ensure_ascii=False) for c in cases))
    print("]}")
    print(len(cases), "cases,", sum("want" not in c for c in cases), "refused", file=sys.stderr)


if __name__ == "__main__":
    main()
