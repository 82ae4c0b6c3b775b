"""Regular expressions with the meaning that they have in ``java.util.regex``, where Spark's connector and
its users have theirs from.

    JavaPattern("topic-[a-z&&[^x]]++(?!-old)").is_found_in("my-topic-abc")

What is read is read exactly as Java reads it; everything else is refused by name, with what to write
instead, so that no pattern picks other topics than the same pattern would in Java. Refused are back
references, properties of Unicode other than its general categories (``\\p{Lu}``), scripts (``\\p{IsGreek}``)
and blocks (``\\p{InGreek}``), the flags d, m, u, x and U, and what Java itself reads in surprising ways.
Scripts and blocks are known of ASCII, of which the names of topics are; another name is an error where they
decide. ``\\b`` knows ASCII alone, as in Java from 19 on, and a look behind counts characters, where Java
counts halves of those beyond U+FFFF.

Looking takes a time that grows with the pattern's size times the name's, whatever is in either: each place
of the pattern is tried at most once at each place of the name (Cox, "Regular Expression Matching: the
Virtual Machine Approach", 2009), and never more than ``STEPS_MAX`` steps.

Source: java.util.regex.Pattern's documentation; the judge of the tests is the class itself.
"""

from __future__ import annotations

from .matcher import NAME_SIZE_MAX, STEPS_MAX, JavaPattern
from .signs import PatternError

__all__ = ["NAME_SIZE_MAX", "STEPS_MAX", "JavaPattern", "PatternError"]
