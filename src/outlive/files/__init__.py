"""Files of this machine as callers see them: walked without being led astray, read in pieces, written so that
none is ever half there.
"""
