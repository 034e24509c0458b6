#!/bin/sh
# Prints the distinct messages of a log with their counts, numbers masked.
sed 's/[0-9][0-9]*/N/g' "$1" | sort | uniq -c | sort -rn
