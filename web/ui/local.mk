# web/ui: the page. bundle.sh makes web/ui/dist/ in the build folder from the sources here, with npm (or from the
# finished bundle that a release tarball carries). The server embeds exactly the files of UI_FILES.
include web/ui/files.mk
UI_FILES = web/ui/dist/index.html web/ui/dist/app.js web/ui/dist/app.css web/ui/dist/favicon.svg \
  web/ui/dist/runbooks.html web/ui/dist/runbooks.js web/ui/dist/runbooks.css
ui_inputs = $(srcdir)/web/ui/src $(srcdir)/web/ui/src/* $(srcdir)/web/ui/src/*/*
ui_config = web/ui/bundle.sh web/ui/build.mjs web/ui/runbooks.mjs web/ui/package.json web/ui/package-lock.json web/ui/tsconfig.json \
  docs/runbooks.md web/ui/index.html web/ui/favicon.svg
TESTS += web/ui/run-tests.sh
EXTRA_DIST += web/ui/src web/ui/test

# A file that is added or removed is seen because its folder changes.
web/ui/dist.stamp: $(ui_config) $(ui_inputs)
	$(AM_V_GEN)NPM='$(NPM)' NODE='$(NODE)' $(SHELL) $(srcdir)/web/ui/bundle.sh $(srcdir)/web/ui web/ui && touch $@

$(UI_FILES): web/ui/dist.stamp
	@test -f $@ || { rm -f web/ui/dist.stamp; $(MAKE) $(AM_MAKEFLAGS) web/ui/dist.stamp; }
	@touch $@

# The bundle goes into the tarball under another name, so that `make clean` there does not take it away.
dist-hook: ui-dist-hook
ui-dist-hook: $(UI_FILES)
	$(MKDIR_P) $(distdir)/web/ui/prebuilt
	for f in $(UI_FILES); do cp $$f $(distdir)/web/ui/prebuilt/ || exit 1; done
	cp web/ui/dist.sha256 $(distdir)/web/ui/prebuilt/SOURCES.sha256

clean-local: ui-clean
ui-clean:
	rm -rf web/ui/dist web/ui/dist.new web/ui/work
	rm -f web/ui/dist.stamp web/ui/dist.sha256

.PHONY: ui-clean ui-dist-hook
