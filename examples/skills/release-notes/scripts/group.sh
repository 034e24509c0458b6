#!/bin/sh
# Groups lines of the form `kind: text` by their kind.
sort | awk -F': ' '$1 != kind { kind = $1; print "## " kind } { sub(/^[^:]*: /, ""); print "- " $0 }'
