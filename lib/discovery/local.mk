noinst_LIBRARIES += libdiscovery.a
DISCOVERY_LIBS = libdiscovery.a $(KUBE_LIBS) $(CARES_LIBS) -lresolv
libdiscovery_a_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(CARES_CFLAGS)
libdiscovery_a_SOURCES = lib/discovery/discovery.c lib/discovery/discovery.h lib/discovery/group.c lib/discovery/group.h \
	lib/discovery/metrics.c lib/discovery/metrics.h lib/discovery/refresh.c lib/discovery/refresh.h lib/discovery/sd_file.c \
	lib/discovery/sd_http.c lib/discovery/sd_static.c lib/discovery/sources.c lib/discovery/target_groups.c \
	lib/discovery/target_groups.h
libdiscovery_a_SOURCES += \
  lib/discovery/answer.c lib/discovery/answer.h lib/discovery/target_list.c lib/discovery/target_list.h \
  lib/discovery/sd_dns.c lib/discovery/sd_dns.h lib/discovery/sd_dns_ask.c lib/discovery/sd_dns_conf.c \
  lib/discovery/sd_docker.c lib/discovery/sd_docker.h lib/discovery/sd_docker_targets.c \
  lib/discovery/sd_consul.c lib/discovery/sd_consul.h lib/discovery/sd_consul_config.c lib/discovery/sd_consul_targets.c
if HAVE_CMOCKA
check_PROGRAMS += discovery_test sd_file_test
TESTS += discovery_test sd_file_test
discovery_test_SOURCES = lib/discovery/discovery_test.c lib/discovery/testkit.h
discovery_test_LDADD = $(DISCOVERY_LIBS) $(CMOCKA_LIBS)
sd_file_test_SOURCES = lib/discovery/sd_file_test.c lib/discovery/testkit.h
sd_file_test_LDADD = $(DISCOVERY_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += sd_dns_test sd_answers_test
TESTS += sd_dns_test sd_answers_test
sd_dns_test_SOURCES = lib/discovery/sd_dns_test.c
sd_dns_test_LDADD = $(DISCOVERY_LIBS) $(CMOCKA_LIBS)
sd_answers_test_SOURCES = lib/discovery/sd_answers_test.c
sd_answers_test_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
sd_answers_test_LDADD = $(DISCOVERY_LIBS) $(CMOCKA_LIBS)
endif

libdiscovery_a_SOURCES += lib/discovery/sd_kubernetes.c lib/discovery/sd_kubernetes.h lib/discovery/sd_kubernetes_config.c lib/discovery/sd_kubernetes_endpoints.c \
	lib/discovery/sd_kubernetes_groups.c lib/discovery/sd_kubernetes_groups.h lib/discovery/sd_kubernetes_labels.c \
	lib/discovery/sd_kubernetes_labels.h lib/discovery/sd_kubernetes_objects.c lib/discovery/sd_kubernetes_objects.h \
	lib/discovery/sd_kubernetes_run.c lib/discovery/sd_kubernetes_selector.c lib/discovery/sd_kubernetes_store.c \
	lib/discovery/sd_kubernetes_store.h
if HAVE_CMOCKA
check_PROGRAMS += sd_kubernetes_test
TESTS += sd_kubernetes_test
sd_kubernetes_test_CPPFLAGS = $(libdiscovery_a_CPPFLAGS)
sd_kubernetes_test_SOURCES = lib/discovery/sd_kubernetes_test.c
sd_kubernetes_test_LDADD = $(DISCOVERY_LIBS) $(CMOCKA_LIBS)
endif

libdiscovery_a_SOURCES += lib/discovery/kube_objects.c lib/discovery/kube_objects.h lib/discovery/sd_kubernetes_source.c \
	lib/discovery/sd_object_pods.c lib/discovery/sd_object_pods.h
if HAVE_CMOCKA
check_PROGRAMS += object_pods_test
TESTS += object_pods_test
object_pods_test_CPPFLAGS = $(libdiscovery_a_CPPFLAGS)
object_pods_test_SOURCES = lib/discovery/object_pods_test.c
object_pods_test_LDADD = $(DISCOVERY_LIBS) $(CMOCKA_LIBS)
endif
