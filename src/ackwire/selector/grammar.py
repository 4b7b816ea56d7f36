"""The grammar of selectors, after ActiveMQ's SelectorParser.jj, for Lark's LALR parser.

Every level of precedence is one rule. Chains of OR, AND and of arithmetic are lists, so that a thousand terms make
one wide expression instead of a deep one; the others lean left, as in ActiveMQ. Note where NOT stands: it binds more
tightly than any comparison, which is ActiveMQ's doing (JMS has it below them).

The names after `->` are methods of `ackwire.selector.builder.Builder`; tokens come from `ackwire.selector.lexer`.
"""

from typing import Final

GRAMMAR: Final = r"""
?start: any
?any: all (_OR all)+ -> any_of
    | all
?all: equality (_AND equality)+ -> all_of
    | equality
?equality: comparison
    | equality _EQUAL comparison -> equal
    | equality _NOT_EQUAL comparison -> not_equal
    | equality _IS NULL -> is_null
    | equality _IS _NOT NULL -> is_not_null
?comparison: sum
    | comparison (LESS | LESS_OR_EQUAL | GREATER | GREATER_OR_EQUAL) sum -> ordered
    | comparison _BETWEEN sum _AND sum -> between
    | comparison _NOT _BETWEEN sum _AND sum -> not_between
    | comparison _LIKE STRING (_ESCAPE STRING)? -> like
    | comparison _NOT _LIKE STRING (_ESCAPE STRING)? -> not_like
    | comparison _IN _strings -> in_
    | comparison _NOT _IN _strings -> not_in
_strings: _OPEN STRING (_COMMA STRING)* _CLOSE
?sum: product ((PLUS | MINUS) product)+ -> arithmetic
    | product
?product: unary ((TIMES | DIVIDE | MODULO) unary)+ -> arithmetic
    | unary
?unary: PLUS unary -> plus
    | MINUS unary -> minus
    | _NOT unary -> not_
    | _XPATH STRING -> xpath
    | primary
?primary: _OPEN any _CLOSE -> group
    | ID -> identifier
    | STRING -> string
    | DECIMAL -> decimal
    | HEX -> hexadecimal
    | OCTAL -> octal
    | FLOAT -> floating
    | TRUE -> true
    | FALSE -> false
    | NULL -> null

%declare _XPATH _NOT _AND _OR _BETWEEN _LIKE _ESCAPE _IN _IS TRUE FALSE NULL
%declare _EQUAL _NOT_EQUAL LESS LESS_OR_EQUAL GREATER GREATER_OR_EQUAL
%declare PLUS MINUS TIMES DIVIDE MODULO _OPEN _CLOSE _COMMA
%declare ID STRING DECIMAL HEX OCTAL FLOAT
"""
