"""An escape suite: one program tries more than 200 ways out of a profile, against victims that are really
there.
"""
