"""Operations: what a request may hold, whichever frontend it comes through."""
