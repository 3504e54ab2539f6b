"""Places where commands run; `local` is this machine's keeper. One contract (`contract`) for all of them."""
