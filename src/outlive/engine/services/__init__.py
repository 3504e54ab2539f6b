"""Services of projects: what `operations.services` decides is carried out here, through starts and
controls.
"""
