"""The machines that commands run on: what is declared of them, what lets them in, what is found."""
